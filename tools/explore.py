"""Serve the page of the explorers with Voilà, for this machine only: `python tools/explore.py PAGE.ipynb`.

Each open page has a kernel of its own. At most six kernels run at once, and one without a page ends after a minute.
Requests whose Host header names another machine are refused, so that no web site can reach the page through a browser.
"""

import sys

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from tornado.web import HTTPError
from traitlets import Int
from traitlets.config import Config
from voila.app import Voila

SECONDS = 60  # after which a kernel without a page ends
HOSTS = ["localhost", "127.0.0.1", "::1"]


class FewKernels(AsyncMappingKernelManager):
    """A kernel manager that refuses to start more kernels than `pages`."""

    pages = Int(6, config=True, help="kernels at once")
    starting = 0

    async def start_kernel(self, *args, **kwargs):
        """Start a kernel, or answer the request with an error page."""
        if len(self) + self.starting >= self.pages:
            text = f"{self.pages} pages are open, which is the limit: close one, and try again after a minute"
            raise HTTPError(503, text, reason=text)
        self.starting += 1
        try:
            return await super().start_kernel(*args, **kwargs)
        finally:
            self.starting -= 1


class Explore(Voila):
    """Voilà for one notebook, reachable from this machine only."""

    classes = [*Voila.classes, FewKernels]

    def init_settings(self) -> dict:
        """The settings of the server. Voilà itself would accept any Host header."""
        return super().init_settings() | {"allow_remote_access": False, "local_hostnames": HOSTS}


if __name__ == "__main__":
    config = Config()
    config.Voila.ip = "127.0.0.1"
    config.VoilaConfiguration.extension_denylist = ["jupyterlab-jupytext"]
    config.VoilaConfiguration.multi_kernel_manager_class = FewKernels
    config.MappingKernelManager.cull_idle_timeout = SECONDS
    config.MappingKernelManager.cull_interval = SECONDS // 6
    Explore.launch_instance(sys.argv[1:], config=config)
