// Package kubeclient is a client for the resources of Kubernetes that executors
// use. It has what client-go's clientset has, but the clientset links all
// resources of Kubernetes, which adds 22 MB to a program.
package kubeclient

import (
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// The clients of the resources.
type (
	// ConfigMaps is the client of the config maps of a namespace.
	ConfigMaps = ListedResource[corev1.ConfigMap, *corev1.ConfigMap, corev1.ConfigMapList, *corev1.ConfigMapList]
	// Events is the client of the events of a namespace.
	Events = ListedResource[corev1.Event, *corev1.Event, corev1.EventList, *corev1.EventList]
	// Leases is the client of the leases of a namespace.
	Leases = ListedResource[coordinationv1.Lease, *coordinationv1.Lease, coordinationv1.LeaseList, *coordinationv1.LeaseList]
	// Secrets is the client of the secrets of a namespace.
	Secrets = Resource[corev1.Secret, *corev1.Secret]
	// AccessReviews is the client of the reviews of this client's own rights.
	AccessReviews = Resource[authorizationv1.SelfSubjectAccessReview, *authorizationv1.SelfSubjectAccessReview]

	pods = ListedResource[corev1.Pod, *corev1.Pod, corev1.PodList, *corev1.PodList]
)

// Pods is the client of the pods of a namespace.
type Pods struct{ pods }

// GetLogs returns a request for the log of a container.
func (p *Pods) GetLogs(name string, options *corev1.PodLogOptions) *rest.Request {
	return p.group.Get().Namespace(p.namespace).Name(name).Resource(p.name).SubResource("log").VersionedParams(options, p.parameters)
}

// Exec returns a request that runs a program in a container.
func (p *Pods) Exec(name string, options *corev1.PodExecOptions) *rest.Request {
	return p.group.Post().Resource(p.name).Namespace(p.namespace).Name(name).SubResource("exec").VersionedParams(options, p.parameters)
}

// Client is a client of one cluster.
type Client struct {
	http                              *http.Client
	core, coordination, authorization *rest.RESTClient
	parameters                        runtime.ParameterCodec
}

// New returns a client. It makes no network calls.
func New(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the resources: %w", err)
		}
	}
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("configure the connections: %w", err)
	}
	c := &Client{http: connections, parameters: runtime.NewParameterCodec(scheme)}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	for _, group := range []struct {
		client  **rest.RESTClient
		version schema.GroupVersion
		path    string
	}{
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.coordination, coordinationv1.SchemeGroupVersion, "/apis"},
		{&c.authorization, authorizationv1.SchemeGroupVersion, "/apis"},
	} {
		config := rest.CopyConfig(config)
		config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &group.version, group.path, codecs
		if *group.client, err = rest.RESTClientForConfigAndClient(config, connections); err != nil {
			return nil, fmt.Errorf("create a client of %s: %w", group.version, err)
		}
	}
	return c, nil
}

// DropConnections closes the idle connections, which may be dead.
func (c *Client) DropConnections() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Pods returns the client of the pods of a namespace.
func (c *Client) Pods(namespace string) *Pods {
	return &Pods{pods{Resource[corev1.Pod, *corev1.Pod]{c.core, "pods", namespace, c.parameters}}}
}

// ConfigMaps returns the client of the config maps of a namespace.
func (c *Client) ConfigMaps(namespace string) *ConfigMaps {
	return &ConfigMaps{Resource[corev1.ConfigMap, *corev1.ConfigMap]{c.core, "configmaps", namespace, c.parameters}}
}

// Events returns the client of the events of a namespace.
func (c *Client) Events(namespace string) *Events {
	return &Events{Resource[corev1.Event, *corev1.Event]{c.core, "events", namespace, c.parameters}}
}

// Secrets returns the client of the secrets of a namespace.
func (c *Client) Secrets(namespace string) *Secrets {
	return &Secrets{c.core, "secrets", namespace, c.parameters}
}

// Leases returns the client of the leases of a namespace.
func (c *Client) Leases(namespace string) *Leases {
	return &Leases{Resource[coordinationv1.Lease, *coordinationv1.Lease]{c.coordination, "leases", namespace, c.parameters}}
}

// AccessReviews returns the client of the reviews of this client's own rights.
func (c *Client) AccessReviews() *AccessReviews {
	return &AccessReviews{c.authorization, "selfsubjectaccessreviews", "", c.parameters}
}
