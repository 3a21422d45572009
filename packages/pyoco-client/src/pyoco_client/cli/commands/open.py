"""The command `open`."""

import click

from pyoco_client.addresses import shown_address
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.output import print_line, print_note
from pyoco_client.cli.examples import examples
from pyoco_client.environment import variables


@click.command("open", epilog=examples("pyoco-client open", "pyoco-client open --print"))
@click.option(
    "--print", "only_print", is_flag=True, help="Print the address instead of opening it."
)
@pass_connection
def open_page(connection: Connection, only_print: bool) -> int:
    """Open the gateway's page in the browser, or print its address if there is no browser."""
    address = f"{shown_address(connection.settings().server)}/"
    if not only_print and _opened_in_browser(address):
        print_note(f"opened {address} in the browser")
    else:
        print_line(address)
    return EXIT_OK


def _opened_in_browser(address: str) -> bool:
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    is_text_browser = isinstance(browser, webbrowser.GenericBrowser) and not isinstance(
        browser, webbrowser.BackgroundBrowser
    )
    # A text browser would take over this terminal; open it only if BROWSER names it.
    if is_text_browser and not variables().get("BROWSER"):
        return False
    return browser.open(address)
