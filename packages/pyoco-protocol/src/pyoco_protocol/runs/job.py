"""The job of a run: the message that waits in the queue for a worker."""

import hashlib
from typing import Final

from pydantic import Field, JsonValue, ValidationError

from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.problems import InvalidJobError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.wire import WireModel

MAX_TAGS: Final = 32
# Fields of the record that the job itself has, so that its `record` need not repeat them.
_FIELDS_OF_JOB: Final = {"run_id", "flow_name", "tag", "tags", "params", "submitted_at"}


def job_message_id(run: RunSnapshot) -> str:
    """Return the message id of a run's job: the id of the run and the time of its submission.

    A run id can be used twice: a deleted run can be submitted again with its idempotency key. The
    time keeps the new job from being dropped as a duplicate of the old one.
    """
    return run.run_id if run.submitted_at is None else f"{run.run_id}:{run.submitted_at!r}"


class RunJob(WireModel):
    """A run that waits for a worker; travels on `Names.work(tag)`."""

    run_id: RunId
    flow_name: FlowName
    tag: Tag
    tags: tuple[Label, ...] = Field(default=(), max_length=MAX_TAGS)
    params: dict[str, JsonValue] = Field(default_factory=dict)
    submitted_at: UnixSeconds
    # Also in `record`. Workers of other kinds write whole snapshots and copy both from here; and
    # the tenant is that of the dead letter, if the run was deleted.
    tenant_id: str | None = None
    api_key_id: str | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    # The other fields of the run's record and its revision at the time of queueing: with them the
    # first worker that receives the job can claim the run without reading the record.
    record: dict[str, JsonValue] | None = None
    record_revision: int | None = None
    # Set on a second job: the run's worker was silent, and its record stayed at this revision.
    still_at_revision: int | None = None

    @classmethod
    def of(cls, run: RunSnapshot, *, default_tag: str) -> "RunJob":
        """Return the job of a run, without workflow text and record; always the same for a run."""
        return cls(
            run_id=run.run_id,
            flow_name=run.flow_name,
            tag=run.tag or default_tag,
            tags=run.tags,
            params=run.params,
            submitted_at=run.submitted_at or run.updated_at,
            tenant_id=run.tenant_id,
            api_key_id=run.api_key_id,
        )

    def with_workflow(self, text: str, sha256: str) -> "RunJob":
        """Return the job with the text of its workflow."""
        return self.model_copy(update={"workflow_yaml": text, "workflow_yaml_sha256": sha256})

    def with_record(self, run: RunSnapshot, revision: int) -> "RunJob":
        """Return the job with the other fields of the run's record, stored at `revision`."""
        rest = run.model_dump(mode="json", exclude=_FIELDS_OF_JOB, exclude_none=True)
        return self.model_copy(update={"record": rest, "record_revision": revision})

    def recorded_run(self) -> RunSnapshot | None:
        """Return the record stored at `record_revision`; None where the job carries none."""
        if self.record is None or self.record_revision is None:
            return None
        try:
            return RunSnapshot.model_validate(
                {**self.record, **{name: getattr(self, name) for name in _FIELDS_OF_JOB}}
            )
        except ValidationError:
            return None

    def verify_workflow(self) -> None:
        """Raise InvalidJobError where the workflow text does not match its hash."""
        text, sha256 = self.workflow_yaml, self.workflow_yaml_sha256
        if text is None or sha256 is None:
            return
        # No accepted file contains a lone surrogate, which UTF-8 cannot encode. Hash it all the
        # same, so that such a text is refused here by its hash.
        if hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() != sha256:
            raise InvalidJobError([("workflow_yaml", "is not the text of workflow_yaml_sha256")])

    def to_bytes(self) -> bytes:
        """Return the message body."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "RunJob":
        """Return the job in a message body; raise InvalidJobError for anything else."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise InvalidJobError(
                [
                    (".".join(map(str, problem["loc"])) or "job", problem["msg"])
                    for problem in error.errors(include_url=False, include_input=False)
                ]
            ) from error
