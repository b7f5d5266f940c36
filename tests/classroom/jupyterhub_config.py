"""JupyterHub for a class on this machine, as simply as it can be had; run.py starts it.

The authenticator lets everybody in who has the one password, and all servers run as the user who
started the hub: for trying out and measuring. For a real class see binder/TEACH.md.
"""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821  JupyterHub gives it
folder = Path(os.environ["CLASS_FOLDER"])
port, hub_port, proxy_port = os.environ["CLASS_PORTS"].split()
scripts = Path(sys.executable).parent

c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.command = [str(scripts / "configurable-http-proxy")]
c.JupyterHub.db_url = f"sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.concurrent_spawn_limit = 0  # the whole class comes at once

c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["CLASS_PASSWORD"]
c.Authenticator.allow_all = True

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "{username}")
c.Spawner.cmd = [str(scripts / "jupyterhub-singleuser")]
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}  # as on Binder: one thread for each student
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
