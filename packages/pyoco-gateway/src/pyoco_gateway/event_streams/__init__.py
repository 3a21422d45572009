"""Answers that go on: server-sent events, for those who would rather wait than ask again."""
