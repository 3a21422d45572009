"""Rebuilds the job of a stored run, to queue it again."""

from dataclasses import dataclass, field

from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.problems import WorkflowTextGoneError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class RunJobs:
    """Builds complete jobs from snapshots, which lack the text of the run's workflow file."""

    texts: WorkflowTexts
    default_tag: str
    signer: JobSigner = field(default_factory=lambda: JobSigner(()))

    async def make(self, run: RunSnapshot) -> RunJob:
        """Return the job; raise WorkflowTextGoneError if the run's workflow text has expired.

        Raises JobSignatureError if jobs are signed and no gateway accepted the run in this form.
        """
        job = await self._unchecked(run)
        self.signer.require_seal(job.to_bytes(), run.seal)
        return job

    async def _unchecked(self, run: RunSnapshot) -> RunJob:
        job = RunJob.of(run, default_tag=self.default_tag)
        sha256 = run.workflow_yaml_sha256
        if sha256 is None:
            return job
        text = await self.texts.get(sha256)
        if text is None:
            raise WorkflowTextGoneError(run.run_id, sha256)
        return job.with_workflow(text, sha256)
