"""Loads the workflow file of a run: checks it again and imports the functions it calls."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_protocol.workflows.document import TaskPlan
from pyoco_protocol.workflows.graph_rules import GraphLanguage, Workflow, read_workflow
from pyoco_worker.child.callable_policy import CallablePolicy, defining_module


class CallableRefusedError(Exception):
    """A task calls a function that workflow files may not call on this worker."""


class CallableMissingError(Exception):
    """A task calls a function that does not exist on this worker."""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task of the graph and the function it calls; None for a task of a plug-in."""

    plan: TaskPlan
    found: object | None


@dataclass(frozen=True, slots=True)
class WorkflowLoader:
    """Finds the functions that a workflow calls; imports only those that its graph uses."""

    policy: CallablePolicy
    language: GraphLanguage
    # Returns the function behind an attribute of a module, which may be a wrapper of the engine.
    unwrapped: Callable[[object], object]

    def load(self, text: str) -> tuple[Workflow, list[FoundTask]]:
        """Return a workflow and the tasks of its graph.

        Raises WorkflowInvalidError for a text that the gateway should have refused, and
        CallableRefusedError or CallableMissingError for a task that cannot run here.
        """
        workflow = read_workflow(text, self.language)
        plans = [workflow.document.tasks[name] for name in sorted(workflow.used)]
        # Check all modules before the first import, because importing executes code.
        for plan in plans:
            if plan.callable is not None:
                self._require(plan, plan.callable.partition(":")[0])
        return workflow, [FoundTask(plan, self._found(plan)) for plan in plans]

    def _found(self, plan: TaskPlan) -> object | None:
        if plan.callable is None:
            return None
        module, _, name = plan.callable.partition(":")
        try:
            loaded = importlib.import_module(module)
        except ImportError as error:
            raise CallableMissingError(
                f"task {plan.name}: the module {module} cannot be imported on this worker: {error}"
            ) from error
        try:
            attribute = getattr(loaded, name)
        except AttributeError:
            raise CallableMissingError(
                f"task {plan.name}: the module {module} has no {name}"
            ) from None
        function = self.unwrapped(attribute)
        if not callable(function):
            raise CallableMissingError(f"task {plan.name}: {plan.callable} cannot be called")
        self._require(plan, defining_module(function))
        return function

    def _require(self, plan: TaskPlan, module: str) -> None:
        refusal = self.policy.refusal(module)
        if refusal is not None:
            raise CallableRefusedError(
                f"task {plan.name} (line {plan.line}) calls {plan.callable}: {refusal}"
            )
