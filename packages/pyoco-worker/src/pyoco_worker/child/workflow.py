"""The flow that a run brings along: checked once more, then made of functions found here."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_protocol.workflows.document import TaskPlan
from pyoco_protocol.workflows.graph_rules import GraphLanguage, Workflow, read_workflow
from pyoco_worker.child.callable_policy import CallablePolicy, home_of


class CallableRefusedError(Exception):
    """A task calls what workflow files may not call on this worker."""


class CallableMissingError(Exception):
    """A task calls what is not to be found on this worker."""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task of the graph and the object that its `callable` names; None for a plug-in's task."""

    plan: TaskPlan
    found: object | None


@dataclass(frozen=True, slots=True)
class WorkflowLoader:
    """Finds what a workflow calls; imports nothing that its graph does not use."""

    policy: CallablePolicy
    language: GraphLanguage
    # From what a module holds under a name to the function in it: the engine has wrappers.
    unwrapped: Callable[[object], object]

    def load(self, text: str) -> tuple[Workflow, list[FoundTask]]:
        """Return a workflow and the tasks of its graph.

        Raises WorkflowInvalidError for a text that no gateway of ours has let in, and
        CallableRefusedError or CallableMissingError for a task that cannot be had here.
        """
        workflow = read_workflow(text, self.language)
        plans = [workflow.document.tasks[name] for name in sorted(workflow.used)]
        # All of them before the first import: a module may do things when it is loaded.
        for plan in plans:
            if plan.callable is not None:
                self._require(plan, plan.callable.partition(":")[0])
        return workflow, [FoundTask(plan, self._found(plan)) for plan in plans]

    def _found(self, plan: TaskPlan) -> object | None:
        if plan.callable is None:
            return None
        module, _, name = plan.callable.partition(":")
        try:
            holder = importlib.import_module(module)
        except ImportError as error:
            raise CallableMissingError(
                f"task {plan.name}: the module {module} cannot be imported on this worker: {error}"
            ) from error
        try:
            held = getattr(holder, name)
        except AttributeError:
            raise CallableMissingError(
                f"task {plan.name}: the module {module} has no {name}"
            ) from None
        function = self.unwrapped(held)
        if not callable(function):
            raise CallableMissingError(f"task {plan.name}: {plan.callable} cannot be called")
        self._require(plan, home_of(function))
        return function

    def _require(self, plan: TaskPlan, module: str) -> None:
        refusal = self.policy.refusal(module)
        if refusal is not None:
            raise CallableRefusedError(
                f"task {plan.name} (line {plan.line}) calls {plan.callable}: {refusal}"
            )
