"""A student of a class: what a browser would ask of JupyterHub and of a Jupyter server."""

from __future__ import annotations

import json
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import nbformat
import requests
from websocket import WebSocket, create_connection

sys.path.append(str(Path(__file__).resolve().parents[2] / "binder"))

from links import hub_link

WAIT_SECONDS = 300
OUTPUTS = {"stream", "display_data", "execute_result", "error"}


class Student:
    """Somebody who logs in to a hub.

    Attributes
    ----------
    stored, run : NotebookNode
        The notebook as it was handed out, and with the outputs of this student's run.
    """

    stored: nbformat.NotebookNode
    run: nbformat.NotebookNode

    def __init__(self, hub: str, name: str, password: str) -> None:
        self.hub, self.name, self.password = hub, name, password
        self.server = f"{hub}/user/{name}"
        self.folder = ""
        self.web = requests.Session()

    def ask(self, method: str, url: str, **more: Any) -> requests.Response:
        """Send a request; an answer that is an error is raised."""
        answer = self.web.request(method, url, timeout=WAIT_SECONDS, **more)
        if not answer.ok:
            raise RuntimeError(f"{method} {url}: {answer.status_code} {answer.text[-500:]}")
        return answer

    def log_in(self) -> None:
        """Log in through the form, and take a token for what follows."""
        self.ask("GET", f"{self.hub}/hub/login")
        secret = {"_xsrf": self.web.cookies.get("_xsrf", path="/hub/")}
        form = {"username": self.name, "password": self.password, **secret}
        self.ask("POST", f"{self.hub}/hub/login?next=/hub/home", data=form)
        secret = {"X-XSRFToken": self.web.cookies.get("_xsrf", path="/hub/")}
        tokens = f"{self.hub}/hub/api/users/{self.name}/tokens"
        token = self.ask("POST", tokens, headers=secret, json={}).json()["token"]
        self.web = requests.Session()
        self.web.headers["Authorization"] = f"token {token}"

    def start_server(self) -> None:
        """Ask for a server and wait until it is there."""
        user = f"{self.hub}/hub/api/users/{self.name}"
        self.ask("POST", f"{user}/server", json={})
        end = time.monotonic() + WAIT_SECONDS
        while not self.ask("GET", user).json()["servers"].get("", {}).get("ready"):
            if time.monotonic() > end:
                raise TimeoutError(f"the server of {self.name} did not start")
            time.sleep(0.2)

    def fetch_course(self, repository: str, branch: str = "main") -> None:
        """Open the link that a teacher hands out; do what its page does, then."""
        link = urlsplit(hub_link(self.hub, repository, branch))
        asked = dict(parse_qsl(link.query))
        self.ask("GET", f"{self.server}/git-pull?{link.query}")
        del asked["urlpath"]  # where the page goes in the end
        said = self.ask("GET", f"{self.server}/git-pull/api?{urlencode(asked)}").text
        if '"phase": "finished"' not in said:
            raise RuntimeError(said)
        self.folder = f"{repository.rpartition('/')[2]}/notebooks"

    def run_notebook(self, name: str) -> None:
        """Open a notebook, start its kernel and run all cells."""
        path = f"{self.folder}/{name}"
        content = self.ask("GET", f"{self.server}/api/contents/{path}").json()["content"]
        self.stored = nbformat.from_dict(content)
        self.run = deepcopy(self.stored)
        session = {"path": path, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        answer = self.ask("POST", f"{self.server}/api/sessions", json=session).json()
        address = f"{self.server}/api/kernels/{answer['kernel']['id']}/channels"
        line = create_connection(
            address.replace("http", "ws", 1),
            header={"Authorization": self.web.headers["Authorization"]},
            timeout=WAIT_SECONDS,
        )
        for cell in self.run.cells:
            if cell.cell_type == "code":
                cell.outputs = run_code(line, cell.source)
        line.close()


def run_code(line: WebSocket, code: str) -> list[nbformat.NotebookNode]:
    """Run one cell in the kernel at the other end of the line; return its outputs."""
    number = uuid4().hex
    header = {"msg_id": number, "msg_type": "execute_request", "session": number, "username": ""}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = {"header": {**header, "version": "5.3", "date": ""}, "content": content}
    line.send(json.dumps({**message, "channel": "shell", "parent_header": {}, "metadata": {}}))
    outputs: list[nbformat.NotebookNode] = []
    waiting = {"execute_reply", "idle"}
    while waiting:
        said = line.recv()
        if isinstance(said, bytes):
            continue  # a widget's buffers
        answer = json.loads(said)
        if answer["parent_header"].get("msg_id") != number:
            continue
        kind = answer["header"]["msg_type"]
        waiting -= {kind, answer["content"].get("execution_state")}
        if kind in OUTPUTS:
            output = nbformat.v4.output_from_msg(answer)
            if outputs and is_continued(outputs[-1], output):
                outputs[-1].text += output.text
            else:
                outputs.append(output)
    return outputs


def is_continued(last: nbformat.NotebookNode, output: nbformat.NotebookNode) -> bool:
    """Say whether an output goes on with the same stream."""
    return output.output_type == "stream" and output.get("name") == last.get("name")
