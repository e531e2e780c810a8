// Package proxies decides which headers of reverse proxies the gateway believes: only
// those of the proxies that it trusts, because any client can send them.
package proxies

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// Trusted are the networks of the proxies that the gateway trusts.
type Trusted []netip.Prefix

// Parse reads addresses, such as 10.0.0.1, and networks, such as 10.0.0.0/8.
func Parse(list []string) (Trusted, error) {
	trusted := make(Trusted, 0, len(list))
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if address, notAddress := netip.ParseAddr(text); notAddress == nil {
			address = address.Unmap().WithZone("")
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		trusted = append(trusted, network.Masked())
	}
	return trusted, nil
}

// Addresses returns the addresses of clients: those of the connections, or, if a
// trusted proxy made the connection, the nearest address in X-Forwarded-For that is
// not that of a trusted proxy.
func (t Trusted) Addresses() echo.IPExtractor {
	if len(t) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range t {
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// Secure reports whether a client reaches the gateway over TLS, of the gateway or of a
// trusted proxy.
func (t Trusted) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !t.contain(peer.Addr().Unmap().WithZone("")) {
		return false
	}
	// The last value is that of the nearest proxy.
	schemes := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
	return strings.EqualFold(strings.TrimSpace(schemes[len(schemes)-1]), "https")
}

func (t Trusted) contain(address netip.Addr) bool {
	for _, network := range t {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
