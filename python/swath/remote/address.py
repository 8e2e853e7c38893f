"""Checks host addresses: a URL from an untrusted source must not reach the private network of this machine.

All addresses of a name must be public, and the connection uses an address that was checked. The name is not resolved
again, so a DNS change after the check has no effect.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from .._settings import switched_on
from ..errors import UnsafeURLError

SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IPv4 addresses embedded in IPv6 addresses, which a gateway translates (RFC 6052). Hosts without IPv4 get them from
# their DNS.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Origin:
    """A server whose addresses were checked."""

    scheme: str
    host: str
    port: int
    addresses: tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """The part that URLs of one server share."""
        return self.scheme, self.host, self.port


def check_url(url: str) -> tuple[SplitResult, Origin]:
    """Returns the parts of an http(s) URL and its server. Raises UnsafeURLError if the URL is not allowed."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise UnsafeURLError(
            f"URL scheme {parts.scheme!r} is not in the allow-list {SCHEMES}. Only HTTP(S) is supported here; other "
            f"schemes are opened by fsspec. URL: {url!r}",
            url,
        )
    if not parts.hostname:
        raise UnsafeURLError(f"URL {url!r} has no hostname", url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    host = unquote(parts.hostname)
    return parts, Origin(parts.scheme, host, port, _resolve(host, port, url))


def _resolve(host: str, port: int, url: str) -> tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...]:
    private_allowed = switched_on("ALLOW_PRIVATE_HOSTS")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        message = f"could not resolve host {host!r}: {error}"
        raise OSError(message) if private_allowed else UnsafeURLError(message, url) from error
    addresses: dict[tuple[socket.AddressFamily, tuple[Any, ...]], None] = {}
    for family, _, _, _, address in found:
        if not private_allowed and not is_public(str(address[0])):
            raise UnsafeURLError(
                f"host {host!r} resolves to {address[0]!r}, which is in a loopback / link-local / private range. "
                "Set SWATH_ALLOW_PRIVATE_HOSTS=1 to allow.",
                url,
            )
        addresses[family, tuple(address)] = None
    if not addresses:
        raise UnsafeURLError(f"could not resolve host {host!r}: it has no addresses", url)
    return tuple(addresses)


def is_public(text: str) -> bool:
    """Whether an address belongs to the public internet."""
    try:
        address = _unwrapped(ipaddress.ip_address(text))
    except ValueError:
        return False
    closed = (
        address.is_loopback
        or address.is_link_local
        or address.is_private
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)
    )
    # Neither global nor in the list above: the shared address space of providers, where some clouds serve credentials.
    return not closed and address.is_global


def _unwrapped(address: Address) -> Address:
    """Returns the IPv4 address embedded in an IPv6 address, which is where its packets go, if there is one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
