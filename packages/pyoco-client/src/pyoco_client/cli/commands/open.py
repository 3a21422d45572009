"""The command `open`: the gateway's page in a browser."""

import click

from pyoco_client.addresses import shown_address
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.output import print_line, print_note
from pyoco_client.cli.examples import examples
from pyoco_client.environment import variables


@click.command("open", epilog=examples("pyoco-client open", "pyoco-client open --print"))
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
@pass_connection
def open_page(connection: Connection, only_print: bool) -> int:
    """Open the gateway's page in the browser, or print its address where there is none."""
    address = f"{shown_address(connection.settings().server)}/"
    if not only_print and _shows(address):
        print_note(f"opened {address} in the browser")
    else:
        print_line(address)
    return EXIT_OK


def _shows(address: str) -> bool:
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    is_of_text = isinstance(browser, webbrowser.GenericBrowser) and not isinstance(
        browser, webbrowser.BackgroundBrowser
    )
    # It would take this terminal over, unless that is what somebody wants.
    if is_of_text and not variables().get("BROWSER"):
        return False
    return browser.open(address)
