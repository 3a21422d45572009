"""405 answers name all methods of a path, and unknown paths answer 404."""

import httpx


async def test_a_method_that_a_path_does_not_have_is_refused(gateway: httpx.AsyncClient) -> None:
    for method, path, allowed in (
        ("PUT", "/runs/7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4", "DELETE, GET"),
        ("PATCH", "/runs/x/tasks", "GET"),
        ("OPTIONS", "/dlq/7", "DELETE, GET"),
        # Literal paths, which are neither the id of a run nor the sequence of a dead letter.
        ("DELETE", "/runs/watch", "GET"),
        ("DELETE", "/runs/counts", "GET"),
        ("DELETE", "/runs/yaml", "POST"),
        ("GET", "/runs/yaml", "POST"),
        ("GET", "/dlq/redrive", "POST"),
        ("DELETE", "/dlq/redrive", "POST"),
        ("GET", "/dlq/7/redrive", "POST"),
        ("DELETE", "/dlq", "GET"),
        ("POST", "/", "GET, HEAD"),
    ):
        answer = await gateway.request(method, path)
        assert (answer.status_code, answer.json()["err_id"]) == (405, "ERR-PYOCO-0111"), path
        assert answer.headers["Allow"] == allowed, path


async def test_an_unknown_path_answers_404_to_any_method(gateway: httpx.AsyncClient) -> None:
    for path in ("/dlq/", "/dlq/7/8", "/runs/x/y", "/nowhere", "/DLQ"):
        answer = await gateway.delete(path)
        assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0110"), path
