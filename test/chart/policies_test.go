package chart

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpoint is one end of a connection: a pod, or an address that is not a pod's,
// such as that of a node, a service or the internet.
type endpoint struct {
	namespace string // "": not a pod
	labels    map[string]string
	ip        string
	ports     map[string]int32 // of the pod, by name
}

// connection is a connection that policies may allow.
type connection struct {
	from, to endpoint
	protocol corev1.Protocol
	port     int32
}

// allowed evaluates policies as the NetworkPolicy API defines them: a pod that
// no policy of a direction selects is open, and rules of several policies add
// up.
func allowed(t *testing.T, policies []networkingv1.NetworkPolicy, c connection) bool {
	t.Helper()
	return directionAllowed(t, policies, networkingv1.PolicyTypeEgress, c) && directionAllowed(t, policies, networkingv1.PolicyTypeIngress, c)
}

func directionAllowed(t *testing.T, policies []networkingv1.NetworkPolicy, direction networkingv1.PolicyType, c connection) bool {
	t.Helper()
	pod, other := c.from, c.to
	if direction == networkingv1.PolicyTypeIngress {
		pod, other = c.to, c.from
	}
	isolated := false
	for _, p := range policies {
		if pod.namespace == "" || p.Namespace != pod.namespace || !selects(t, &p.Spec.PodSelector, pod.labels) || !slices.Contains(p.Spec.PolicyTypes, direction) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeEgress {
			for _, rule := range p.Spec.Egress {
				if portMatches(rule.Ports, c) && peersMatch(t, rule.To, p.Namespace, other) {
					return true
				}
			}
			continue
		}
		for _, rule := range p.Spec.Ingress {
			if portMatches(rule.Ports, c) && peersMatch(t, rule.From, p.Namespace, other) {
				return true
			}
		}
	}
	return !isolated
}

func peersMatch(t *testing.T, peers []networkingv1.NetworkPolicyPeer, namespace string, e endpoint) bool {
	t.Helper()
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return blockHas(t, p.IPBlock, e.ip)
		}
		if e.namespace == "" {
			return false
		}
		if p.NamespaceSelector == nil {
			return e.namespace == namespace && selects(t, p.PodSelector, e.labels)
		}
		return selects(t, p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: e.namespace}) &&
			(p.PodSelector == nil || selects(t, p.PodSelector, e.labels))
	})
}

func blockHas(t *testing.T, block *networkingv1.IPBlock, ip string) bool {
	t.Helper()
	address := netip.MustParseAddr(ip)
	whole, err := netip.ParsePrefix(block.CIDR)
	require.NoError(t, err)
	for _, except := range block.Except {
		part, err := netip.ParsePrefix(except)
		require.NoError(t, err)
		require.True(t, whole.Overlaps(part) && part.Bits() > whole.Bits(), "the API server refuses %s as an exception of %s", except, block.CIDR)
		if part.Contains(address) {
			return false
		}
	}
	return whole.Contains(address)
}

func portMatches(ports []networkingv1.NetworkPolicyPort, c connection) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if protocol := p.Protocol; (protocol == nil && c.protocol != corev1.ProtocolTCP) || (protocol != nil && *protocol != c.protocol) {
			return false
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return c.to.ports[p.Port.StrVal] == c.port
		case p.EndPort != nil:
			return p.Port.IntVal <= c.port && c.port <= *p.EndPort
		}
		return p.Port.IntVal == c.port
	})
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(labels.Set(of))
}

// cluster holds the chart's pods and policies.
type cluster struct {
	policies []networkingv1.NetworkPolicy
	pods     map[string]endpoint // of the chart, by component
}

func install(t *testing.T, values chartutil.Values, set string) cluster {
	t.Helper()
	more, err := chartutil.ReadValues([]byte(set))
	require.NoError(t, err)
	objects := render(t, chartutil.CoalesceTables(more, values))
	c := cluster{policies: ofKind[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy"), pods: map[string]endpoint{}}
	for _, d := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
		e := endpoint{namespace: d.Namespace, labels: d.Spec.Template.Labels, ip: "10.244.0.5", ports: map[string]int32{}}
		for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
			e.ports[p.Name] = p.ContainerPort
		}
		c.pods[e.labels["app.kubernetes.io/component"]] = e
	}
	return c
}

func taskOf(set string) endpoint {
	return endpoint{namespace: "drover-tasks", ip: "10.244.7.7", labels: map[string]string{
		"drover.run/run": "01jd0000000000000000000000", "drover.run/task": "0", "drover.run/key": "k", "drover.run/set": set,
	}}
}

func outside(ip string) endpoint { return endpoint{ip: ip} }

// TestChart_confines_tasks opens connections from the pod of a task: with the
// defaults it reaches the internet and the cluster's name server, and nothing of
// the cluster, its nodes or the metadata service of a cloud.
func TestChart_confines_tasks(t *testing.T) {
	t.Parallel()
	const executors = `executors: {linux: {namespace: drover-tasks, token: {secret: x}}}`
	c := install(t, valuesOf(t, "least.yaml"), executors)
	task := taskOf("runs-drover-executor-linux")
	dns := endpoint{namespace: "kube-system", labels: map[string]string{"k8s-app": "kube-dns"}, ip: "10.244.0.2"}
	for name, to := range map[string]struct {
		to       endpoint
		protocol corev1.Protocol
		port     int32
		want     bool
	}{
		"a site":                      {outside("93.184.216.34"), corev1.ProtocolTCP, 443, true},
		"a site over IPv6":            {outside("2606:2800:220:1::1"), corev1.ProtocolTCP, 443, true},
		"git over ssh":                {outside("140.82.121.4"), corev1.ProtocolTCP, 22, true},
		"the name server":             {dns, corev1.ProtocolUDP, 53, true},
		"the name server over TCP":    {dns, corev1.ProtocolTCP, 53, true},
		"the node's name cache":       {outside("169.254.20.10"), corev1.ProtocolUDP, 53, true},
		"metrics of the name server":  {dns, corev1.ProtocolTCP, 9153, false},
		"metrics of the name cache":   {outside("169.254.20.10"), corev1.ProtocolTCP, 9253, false},
		"another system pod":          {endpoint{namespace: "kube-system", ip: "10.244.0.3"}, corev1.ProtocolUDP, 53, false},
		"a false name server":         {endpoint{namespace: "drover-tasks", labels: dns.labels, ip: "10.244.9.9"}, corev1.ProtocolUDP, 53, false},
		"a pod of Temporal":           {endpoint{namespace: "temporal", ip: "10.244.1.7"}, corev1.ProtocolTCP, 7233, false},
		"the service of Temporal":     {outside("10.96.14.3"), corev1.ProtocolTCP, 7233, false},
		"a pod of PostgreSQL":         {endpoint{namespace: "postgres", ip: "10.244.1.8"}, corev1.ProtocolTCP, 5432, false},
		"a database in the network":   {outside("172.31.4.9"), corev1.ProtocolTCP, 5432, false},
		"the gateway":                 {c.pods["gateway"], corev1.ProtocolTCP, 8080, false},
		"metrics of an executor":      {c.pods["executor-linux"], corev1.ProtocolTCP, 9090, false},
		"another task":                {taskOf("runs-drover-executor-linux"), corev1.ProtocolTCP, 80, false},
		"the API server":              {outside("10.96.0.1"), corev1.ProtocolTCP, 443, false},
		"a kubelet":                   {outside("192.168.1.10"), corev1.ProtocolTCP, 10250, false},
		"a node in the carrier range": {outside("100.64.3.3"), corev1.ProtocolTCP, 10250, false},
		"the metadata of a cloud":     {outside("169.254.169.254"), corev1.ProtocolTCP, 80, false},
		"credentials of a cloud":      {outside("169.254.170.2"), corev1.ProtocolTCP, 80, false},
		"metadata of another cloud":   {outside("168.63.129.16"), corev1.ProtocolTCP, 80, false},
		"the metadata over IPv6":      {outside("fd00:ec2::254"), corev1.ProtocolTCP, 80, false},
		"a pod over IPv6":             {endpoint{namespace: "temporal", ip: "fd12:3456::7"}, corev1.ProtocolTCP, 7233, false},
		"a neighbour over IPv6":       {outside("fe80::1"), corev1.ProtocolTCP, 80, false},
	} {
		require.Equal(t, to.want, allowed(t, c.policies, connection{task, to.to, to.protocol, to.port}), name)
	}
	for name, from := range map[string]endpoint{
		"another task": task, "a pod": {namespace: "default", ip: "10.244.2.2"}, "the gateway": c.pods["gateway"], "the internet": outside("93.184.216.34"),
	} {
		require.False(t, allowed(t, c.policies, connection{from, task, corev1.ProtocolTCP, 80}), "from %s", name)
	}
	// The connections of Drover's own pods stay open.
	for component, pod := range c.pods {
		for _, to := range []endpoint{outside("10.96.14.3"), outside("169.254.169.254"), {namespace: "postgres", ip: "10.244.1.8"}, c.pods["gateway"], outside("93.184.216.34")} {
			require.True(t, allowed(t, c.policies, connection{pod, to, corev1.ProtocolTCP, 8080}), component)
		}
	}
	// The policy selects only pods of the set.
	require.True(t, allowed(t, c.policies, connection{taskOf("another"), outside("10.96.0.1"), corev1.ProtocolTCP, 443}))
}

// TestChart_confines_tasks_as_configured changes the addresses that tasks may reach.
func TestChart_confines_tasks_as_configured(t *testing.T) {
	t.Parallel()
	const executors = "executors: {linux: {set: s, namespace: drover-tasks, token: {secret: x}}}\n"
	site, private, temporal := outside("93.184.216.34"), outside("10.1.2.3"), outside("10.96.14.3")
	for name, c := range map[string]struct {
		set  string
		want [3]bool
	}{
		"by default":                  {``, [3]bool{true, false, false}},
		"one more address":            {`networkPolicy: {tasks: {egress: [{to: [{ipBlock: {cidr: 10.1.0.0/16}}], ports: [{port: 443}]}]}}`, [3]bool{true, true, false}},
		"no internet":                 {`networkPolicy: {tasks: {internet: false}}`, [3]bool{false, false, false}},
		"other exceptions":            {`networkPolicy: {tasks: {except: [10.96.0.0/12, "fd00::/8"]}}`, [3]bool{true, true, false}},
		"no exceptions":               {`networkPolicy: {tasks: {except: []}}`, [3]bool{true, true, true}},
		"no policy":                   {`networkPolicy: {tasks: {enabled: false}}`, [3]bool{true, true, true}},
		"with those of Drover's pods": {`networkPolicy: {enabled: true}`, [3]bool{true, false, false}},
	} {
		in := install(t, valuesOf(t, "least.yaml"), executors+c.set)
		for i, to := range []endpoint{site, private, temporal} {
			require.Equal(t, c.want[i], allowed(t, in.policies, connection{taskOf("s"), to, corev1.ProtocolTCP, 443}), "%s: %s", name, to.ip)
		}
	}
}

// TestChart_admits_its_own_executors restricts the callers of the gateway and the relay:
// the executors of the chart are still allowed.
func TestChart_admits_its_own_executors(t *testing.T) {
	t.Parallel()
	c := install(t, valuesOf(t, "most.yaml"), `networkPolicy: {relayFrom: [{ipBlock: {cidr: 203.0.113.0/24}}]}`)
	gateway, relay := c.pods["gateway"], c.pods["relay"]
	ingress, stranger := endpoint{namespace: "ingress", ip: "10.244.3.3"}, endpoint{namespace: "default", ip: "10.244.3.4"}
	for name, x := range map[string]struct {
		c    connection
		want bool
	}{
		"ingress to gateway":  {connection{ingress, gateway, corev1.ProtocolTCP, gateway.ports["http"]}, true},
		"executor to gateway": {connection{c.pods["executor-linux"], gateway, corev1.ProtocolTCP, gateway.ports["http"]}, true},
		"executor to relay":   {connection{c.pods["executor-tenants"], relay, corev1.ProtocolTCP, relay.ports["grpc"]}, true},
		"external executors":  {connection{outside("203.0.113.9"), relay, corev1.ProtocolTCP, relay.ports["grpc"]}, true},
		"stranger to gateway": {connection{stranger, gateway, corev1.ProtocolTCP, gateway.ports["http"]}, false},
		"stranger to relay":   {connection{stranger, relay, corev1.ProtocolTCP, relay.ports["grpc"]}, false},
		"stranger to control": {connection{stranger, c.pods["control"], corev1.ProtocolTCP, 9090}, false},
		"task to gateway":     {connection{taskOf("runs-drover-executor-linux"), gateway, corev1.ProtocolTCP, gateway.ports["http"]}, false},
		"task to relay":       {connection{taskOf("tenants"), relay, corev1.ProtocolTCP, relay.ports["grpc"]}, false},
	} {
		require.NotZero(t, x.c.port, name)
		require.Equal(t, x.want, allowed(t, c.policies, x.c), name)
	}
}

// TestChart_warns_of_open_tasks checks the notes that Helm prints after an
// installation.
func TestChart_warns_of_open_tasks(t *testing.T) {
	t.Parallel()
	const executors = "executors: {linux: {token: {secret: x}}}\n"
	for set, want := range map[string]string{
		executors: "does not enforce NetworkPolicy",
		executors + "networkPolicy: {tasks: {enabled: false}}": "WARNING: networkPolicy.tasks.enabled is false",
		executors + "networkPolicy: {tasks: {except: []}}":     "WARNING: networkPolicy.tasks.except is empty",
		``: "",
	} {
		more, err := chartutil.ReadValues([]byte(set))
		require.NoError(t, err)
		text, err := renderText(load(t), chartutil.CoalesceTables(more, valuesOf(t, "least.yaml")))
		require.NoError(t, err)
		notes := text["drover/templates/NOTES.txt"]
		require.NotEmpty(t, notes)
		if want == "" {
			require.NotContains(t, notes, "NetworkPolicy")
			continue
		}
		require.Contains(t, notes, want)
	}
}
