"""Makes the job of a run that is stored already, to queue it once more."""

from dataclasses import dataclass, field

from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.problems import WorkflowTextGoneError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class RunJobs:
    """Jobs that say all a worker needs: a workflow's text too, which no snapshot holds."""

    texts: WorkflowTexts
    default_tag: str
    signer: JobSigner = field(default_factory=lambda: JobSigner(()))

    async def make(self, run: RunSnapshot) -> RunJob:
        """Return the job; raise WorkflowTextGoneError where the run's workflow is not kept.

        Where jobs are signed, raise JobSignatureError for a run that no gateway took in so.
        """
        job = await self._made(run)
        self.signer.require_seal(job.to_bytes(), run.seal)
        return job

    async def _made(self, run: RunSnapshot) -> RunJob:
        job = RunJob.of(run, default_tag=self.default_tag)
        sha256 = run.workflow_yaml_sha256
        if sha256 is None:
            return job
        text = await self.texts.get(sha256)
        if text is None:
            raise WorkflowTextGoneError(run.run_id, sha256)
        return job.with_workflow(text, sha256)
