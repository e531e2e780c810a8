package testenv

import (
	"cmp"
	"os"
	"testing"
)

// The environment variables that describe the cluster for tests. KUBECONFIG is
// deliberately not one of them: it names the cluster that its user works with, and
// tests create and remove many objects.
const (
	// KubeconfigVariable names a kubeconfig with an administrator's rights in
	// a cluster that tests may use.
	KubeconfigVariable = "DROVER_TEST_KUBECONFIG"
	// KubernetesImageVariable and KubernetesDroverImageVariable name images to
	// use in place of KubernetesImage and KubernetesDroverImage, for a cluster
	// that has them under other names.
	KubernetesImageVariable       = "DROVER_TEST_KUBERNETES_IMAGE"
	KubernetesDroverImageVariable = "DROVER_TEST_KUBERNETES_DROVER_IMAGE"
	// KubernetesGitImageVariable is the same for KubernetesGitImage.
	KubernetesGitImageVariable = "DROVER_TEST_KUBERNETES_GIT_IMAGE"
	// KubernetesRegistryVariable names an address of this host at which a
	// registry without TLS may listen for the cluster to pull from.
	KubernetesRegistryVariable = "DROVER_TEST_KUBERNETES_REGISTRY"
)

// The images in the cluster of `make test-k8s`. They are in no registry, so their
// pull policy must not be always.
const (
	// KubernetesImage is busybox with a link for each of its applets and a
	// user "tester" (1000:1000), as BusyboxImage is for Docker.
	KubernetesImage = "drover.test/busybox:test"
	// KubernetesDroverImage holds bin/drover and bin/drover-shim in /bin, as
	// the Drover image does.
	KubernetesDroverImage = "drover.test/drover:test"
	// KubernetesGitImage is KubernetesImage with the host's git: see GitFiles.
	KubernetesGitImage = "drover.test/git:test"
	// KubernetesPauseImage is the image of the cluster's pod sandboxes.
	KubernetesPauseImage = "drover.test/pause:test"
)

// Kubernetes is a cluster that a test may use.
type Kubernetes struct {
	Kubeconfig  string
	Image       string
	DroverImage string
	// GitImage is empty if the cluster has no image with git.
	GitImage string
	// Registry is empty if the cluster trusts no registry of a test.
	Registry string
}

// RequireKubernetes returns the cluster that DROVER_TEST_KUBECONFIG names. If it
// is not set, the test is skipped, or fails if DROVER_REQUIRE names kubernetes. Each
// test creates namespaces of its own in the cluster and removes them.
func RequireKubernetes(t testing.TB) Kubernetes {
	t.Helper()
	kubeconfig := os.Getenv(KubeconfigVariable)
	if kubeconfig == "" {
		Missing(t, "kubernetes", KubeconfigVariable+" is not set", "run make test-k8s, which starts a cluster for its tests")
	}
	if _, err := os.Stat(kubeconfig); err != nil {
		Missing(t, "kubernetes", err.Error(), "correct "+KubeconfigVariable)
	}
	gitImage := os.Getenv(KubernetesGitImageVariable)
	if gitImage == "" && os.Getenv(KubernetesImageVariable) == "" {
		gitImage = KubernetesGitImage
	}
	return Kubernetes{
		Kubeconfig:  kubeconfig,
		Image:       cmp.Or(os.Getenv(KubernetesImageVariable), KubernetesImage),
		DroverImage: cmp.Or(os.Getenv(KubernetesDroverImageVariable), KubernetesDroverImage),
		GitImage:    gitImage,
		Registry:    os.Getenv(KubernetesRegistryVariable),
	}
}
