package chart

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const kubeconfigVariable = "DROVER_TEST_KUBECONFIG"

func requireCluster(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig := os.Getenv(kubeconfigVariable)
	if kubeconfig == "" {
		missing(t, kubeconfigVariable+" is not set", "run make test-k8s")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	return config
}

func missing(t *testing.T, reason, remedy string) {
	t.Helper()
	for service := range strings.SplitSeq(os.Getenv("DROVER_REQUIRE"), ",") {
		if service == "kubernetes" {
			t.Fatalf("%s: %s", reason, remedy)
		}
	}
	t.Skipf("%s: %s", reason, remedy)
}

// The API server accepts every object of the chart and knows every field.
func TestChart_in_cluster(t *testing.T) {
	t.Parallel()
	config := requireCluster(t)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for _, name := range []string{namespace, "drover-tasks"} {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
			})
		}
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, file := range []string{"least.yaml", "most.yaml"} {
		for _, o := range render(t, valuesOf(t, file)) {
			kind := o.GroupVersionKind()
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			require.NoError(t, err)
			_, err = objects.Resource(mapping.Resource).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})
			require.NoError(t, err, "%s: %s %s", file, kind.Kind, o.GetName())
		}
	}
}
