package main

import (
	"fmt"
	"path/filepath"
)

const (
	etcdAddress      = "127.0.0.1:2379"
	etcdPeerAddress  = "127.0.0.1:2380"
	containerdSocket = "/run/containerd/containerd.sock"
)

// etcdArgs configures etcd to keep its data in memory, since a test cluster
// need not survive.
func etcdArgs() []string {
	return []string{
		"--name=" + nodeName,
		"--data-dir=/run/etcd",
		"--listen-client-urls=http://" + etcdAddress,
		"--advertise-client-urls=http://" + etcdAddress,
		"--listen-peer-urls=http://" + etcdPeerAddress,
		"--initial-advertise-peer-urls=http://" + etcdPeerAddress,
		"--initial-cluster=" + nodeName + "=http://" + etcdPeerAddress,
	}
}

func apiServerArgs(l layout) []string {
	return []string{
		"--etcd-servers=http://" + etcdAddress,
		fmt.Sprintf("--secure-port=%d", apiPort),
		"--bind-address=0.0.0.0", // only this host and the pods are on this network
		"--advertise-address=" + l.nodeIP().String(),
		"--service-cluster-ip-range=" + serviceRange,
		"--cert-dir=/run/apiserver",
		"--tls-cert-file=" + l.config(servingCert),
		"--tls-private-key-file=" + l.config(servingKey),
		"--token-auth-file=" + l.config(tokensFile),
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + l.config(accountsKey),
		"--service-account-key-file=" + l.config(accountsKey),
		"--kubelet-client-certificate=" + l.config(kubeletClientCert),
		"--kubelet-client-key=" + l.config(kubeletClientKey),
		// No resolver knows the node's name.
		"--kubelet-preferred-address-types=InternalIP",
	}
}

func controllerManagerArgs(l layout) []string {
	return []string{
		"--kubeconfig=" + l.config(adminKubeconfig),
		"--leader-elect=false",
		"--secure-port=0",
		"--root-ca-file=" + l.config(caFile),
		"--service-account-private-key-file=" + l.config(accountsKey),
	}
}

func schedulerArgs(l layout) []string {
	return []string{"--kubeconfig=" + l.config(adminKubeconfig), "--leader-elect=false", "--secure-port=0"}
}

func kubeletArgs(l layout) []string {
	return []string{
		"--config=" + l.config(kubeletConfig),
		"--kubeconfig=" + l.config(kubeletKubeconfig),
		"--hostname-override=" + nodeName,
		"--node-ip=" + l.nodeIP().String(),
	}
}

// requirement is a program of the distribution and its Debian package.
type requirement struct{ program, debian string }

func requirements() []requirement {
	return []requirement{
		{"etcd", "etcd-server"},
		{"containerd", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{"iptables", "iptables"},
		{"conntrack", "conntrack"},
		{filepath.Join(cniPlugins, "bridge"), "containernetworking-plugins"},
	}
}
