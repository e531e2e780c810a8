package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// nodeInterface is the cluster's end of the link to the host.
const nodeInterface = "eth0"

// freeNetwork returns a network of four addresses that no interface of the host
// uses.
func freeNetwork() (netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, err
	}
	for range 1000 {
		// 10.214.0.0/16, in steps of four.
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], 10<<24|214<<16|uint32(rand.IntN(1<<14))<<2)
		candidate := netip.PrefixFrom(netip.AddrFrom4(raw), 30)
		used := false
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Overlaps(candidate) {
				used = true
			}
		}
		if !used {
			return candidate, nil
		}
	}
	return netip.Prefix{}, errors.New("no free addresses in 10.214.0.0/16")
}

// connect links the host with the network namespace of a process. The kernel
// removes the link with the namespace.
func connect(l layout, name string, pid int) error {
	link := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: nodeInterface, PeerNamespace: netlink.NsPid(pid)}
	link.Name = name
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("create a link to the cluster: %w", err)
	}
	return setUp(name, l.hostIP(), l.Network.Bits())
}

// joinNetwork is the cluster's half of connect. It makes the service address of
// the API server local, so that no proxy is needed to reach it.
func joinNetwork(l layout) error {
	if err := setUp(nodeInterface, l.nodeIP(), l.Network.Bits()); err != nil {
		return err
	}
	return setUp("lo", netip.MustParseAddr(apiServiceIP), 32)
}

func setUp(name string, address netip.Addr, bits int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	ip := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, address.BitLen())}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ip}); err != nil {
		return fmt.Errorf("assign %s to %s: %w", ip, name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}
