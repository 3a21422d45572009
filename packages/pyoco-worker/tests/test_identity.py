import pytest

from pyoco_testkit.builders import snapshot
from pyoco_worker.identity import Identity

ME = Identity("worker-1", "instance-2")


@pytest.mark.parametrize(
    ("instance_id", "attempt", "is_owner"),
    [
        ("instance-2", 3, True),
        # An earlier process of the same worker, other attempts, and no owner.
        ("instance-1", 3, False),
        ("instance-2", 4, False),
        ("instance-2", 2, False),
        (None, 3, False),
    ],
)
def test_only_the_same_instance_and_attempt_own_a_run(
    instance_id: str | None, attempt: int, is_owner: bool
) -> None:
    stored = snapshot(worker_id="worker-1", instance_id=instance_id, attempt=attempt)
    assert ME.owns(stored, 3) is is_owner
