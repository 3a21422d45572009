"""Limits of executions that the rules apply."""

from typing import Final

# Events of one execution. Commands that end nodes or the execution are exempt.
MAX_EVENTS: Final = 200_000
# Progress is not stored from this event on, so that it cannot use up the events.
MAX_PROGRESS_SEQ: Final = 50_000
MAX_PROGRESS_PER_ATTEMPT: Final = 1_000
MIN_PROGRESS_INTERVAL_SEC: Final = 1.0
MAX_RESUME_REQUESTS: Final = 100
MAX_OPEN_IN_HEAD: Final = 100
MAX_HEAD_WAIT_KEY_BYTES: Final = 200
# A resumed attempt has at least this much time.
MIN_TIME_AFTER_RESUME_MS: Final = 1_000
