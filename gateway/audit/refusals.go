package audit

import (
	"net"
	"sync"
	"time"

	"github.com/drover-run/drover/run/auditlog"
)

// Refusals need no valid token, so clients could fill the log with them. In each
// window, an address may cause refusalBurst records, and all together refusalTotal;
// the rest is counted in one record for each address.
const (
	refusalWindow = time.Minute
	refusalBurst  = 10
	refusalTotal  = 300
	// maxAddresses bounds the addresses in memory; the rest is counted together.
	maxAddresses = 1_000
)

// refusals decides which refusals have a record of their own.
type refusals struct {
	mu      sync.Mutex
	written int // in this window
	clients map[client]*counted
}

// client is the origin of refusals; the zero value is that of many.
type client struct{ network, subject string }

type counted struct {
	written int
	merged  auditlog.Record // its Count is 0 if there is none
}

func newRefusals() *refusals { return &refusals{clients: map[client]*counted{}} }

// merge counts a refusal, and reports whether it is counted in the record of others.
func (f *refusals) merge(r auditlog.Record) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := client{network(r.Remote), r.Subject}
	if f.clients[from] == nil && len(f.clients) >= maxAddresses {
		from = client{}
	}
	c := f.clients[from]
	if c == nil {
		c = &counted{}
		f.clients[from] = c
	}
	if from != (client{}) && c.written < refusalBurst && f.written < refusalTotal {
		c.written++
		f.written++
		return false
	}
	if c.merged.Count == 0 {
		c.merged = r
		return true
	}
	c.merged.Count += r.Count
	c.merged.Until = r.Time
	c.merged.RequestID = ""
	for same, other := range map[*string]string{
		&c.merged.Subject: r.Subject, &c.merged.Token: r.Token, &c.merged.Action: r.Action, &c.merged.Remote: r.Remote, (*string)(&c.merged.Code): string(r.Code),
	} {
		if *same != other {
			*same = ""
		}
	}
	if c.merged.Resource != r.Resource {
		c.merged.Resource = auditlog.Resource{}
	}
	return true
}

// take returns the merged records of the window, and begins the next one.
func (f *refusals) take() (out []auditlog.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		if c.merged.Count > 0 {
			out = append(out, c.merged)
		}
	}
	clear(f.clients)
	f.written = 0
	return out
}

// network returns the network that one host may have all addresses of.
func network(address string) string {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return address
}
