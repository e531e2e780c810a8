package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// The configuration files of a cluster, in its config directory.
const (
	tokensFile        = "tokens.csv"
	adminKubeconfig   = "admin.kubeconfig"
	kubeletKubeconfig = "kubelet.kubeconfig"
	kubeletConfig     = "kubelet.json"
	containerdConfig  = "containerd.toml"
	cniDir            = "cni"
	registriesDir     = "registries"
	cniPlugins        = "/usr/lib/cni"
)

// writeConfigs writes all configuration files of the programs.
func writeConfigs(l layout) error {
	if err := writeKeys(l); err != nil {
		return err
	}
	admin, node := rand.Text(), rand.Text()
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n%s,system:node:%s,%s,\"system:nodes\"\n", admin, node, nodeName, nodeName)
	if err := os.WriteFile(l.config(tokensFile), []byte(tokens), 0o600); err != nil {
		return err
	}
	if err := writeKubeconfig(l, adminKubeconfig, admin); err != nil {
		return err
	}
	if err := writeKubeconfig(l, kubeletKubeconfig, node); err != nil {
		return err
	}
	if err := writeKubeletConfig(l); err != nil {
		return err
	}
	return writeContainerdConfig(l)
}

func writeKubeconfig(l layout, name, token string) error {
	ca, err := os.ReadFile(l.config(caFile))
	if err != nil {
		return err
	}
	const one = "drover-test"
	config := api.NewConfig()
	config.Clusters[one] = &api.Cluster{Server: l.server(), CertificateAuthorityData: ca}
	config.AuthInfos[one] = &api.AuthInfo{Token: token}
	config.Contexts[one] = &api.Context{Cluster: one, AuthInfo: one}
	config.CurrentContext = one
	return clientcmd.WriteToFile(*config, l.config(name))
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

func writeKubeletConfig(l layout) error {
	return writeJSON(l.config(kubeletConfig), &kubelet.KubeletConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		ContainerRuntimeEndpoint: "unix://" + containerdSocket,
		Authentication: kubelet.KubeletAuthentication{
			X509:      kubelet.KubeletX509Authentication{ClientCAFile: l.config(caFile)},
			Webhook:   kubelet.KubeletWebhookAuthentication{Enabled: new(false)},
			Anonymous: kubelet.KubeletAnonymousAuthentication{Enabled: new(false)},
		},
		// Only the API server has a client certificate of the cluster's
		// authority.
		Authorization:          kubelet.KubeletAuthorization{Mode: kubelet.KubeletAuthorizationModeAlwaysAllow},
		HealthzPort:            new(int32(0)),
		ResolverConfig:         new(""),
		FailSwapOn:             new(false),
		CgroupDriver:           "cgroupfs",
		CgroupRoot:             "/" + l.CGroup,
		EnforceNodeAllocatable: []string{"none"},
		MaxPods:                500,
		// The test node shares its disk with other data.
		EvictionHard:                map[string]string{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		ImageGCHighThresholdPercent: new(int32(100)),
		SerializeImagePulls:         new(false),
		// Many small pods start at once.
		RegistryPullQPS: new(int32(0)),
		EventRecordQPS:  new(int32(0)),
		KubeAPIQPS:      new(int32(200)),
		KubeAPIBurst:    400,
	})
}

// writeContainerdConfig writes containerd's configuration, the pod network, and
// the permission to pull without TLS from a test's registry.
func writeContainerdConfig(l layout) error {
	snapshotter, err := snapshotterFor(l.Dir)
	if err != nil {
		return err
	}
	// The disabled plugin would create a directory in the host's /opt.
	// restrict_oom_score_adj: without it no sandbox starts where this program
	// may not raise its own score.
	containerd := fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`, containerdSocket, pauseImage, snapshotter, cniPlugins, l.config(cniDir), l.config(registriesDir))
	if err := os.WriteFile(l.config(containerdConfig), []byte(containerd), 0o600); err != nil {
		return err
	}

	registry := filepath.Join(l.config(registriesDir), l.registry())
	for _, dir := range []string{registry, l.config(cniDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	hosts := fmt.Sprintf("server = %q\n", "http://"+l.registry())
	if err := os.WriteFile(filepath.Join(registry, "hosts.toml"), []byte(hosts), 0o600); err != nil {
		return err
	}
	return writeJSON(filepath.Join(l.config(cniDir), "10-pods.conflist"), map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type":   "host-local",
					"ranges": [][]map[string]string{{{"subnet": podRange}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	})
}

func writeJSON(path string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
