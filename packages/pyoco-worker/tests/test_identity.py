import pytest

from pyoco_testkit.builders import snapshot
from pyoco_worker.identity import Identity

ME = Identity("worker-1", "life-2")


@pytest.mark.parametrize(
    ("instance_id", "attempt", "is_mine"),
    [
        ("life-2", 3, True),
        # An earlier life of the same worker, a later attempt of our own, nobody at all.
        ("life-1", 3, False),
        ("life-2", 4, False),
        ("life-2", 2, False),
        (None, 3, False),
    ],
)
def test_a_run_is_mine_in_this_life_and_under_this_attempt(
    instance_id: str | None, attempt: int, is_mine: bool
) -> None:
    stored = snapshot(worker_id="worker-1", instance_id=instance_id, attempt=attempt)
    assert ME.owns(stored, 3) is is_mine
