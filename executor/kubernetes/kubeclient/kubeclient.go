// Package kubeclient is a client for the resources of Kubernetes that executors
// use. It has what client-go's clientset has, but the clientset links all
// resources of Kubernetes, which doubles the size of a program.
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
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// The clients of the resources.
type (
	// ConfigMaps is the client of the config maps of a namespace.
	ConfigMaps = gentype.ClientWithList[*corev1.ConfigMap, *corev1.ConfigMapList]
	// Events is the client of the events of a namespace.
	Events = gentype.ClientWithList[*corev1.Event, *corev1.EventList]
	// Leases is the client of the leases of a namespace.
	Leases = gentype.ClientWithList[*coordinationv1.Lease, *coordinationv1.LeaseList]
	// Secrets is the client of the secrets of a namespace.
	Secrets = gentype.ClientWithList[*corev1.Secret, *corev1.SecretList]
	// AccessReviews is the client of the reviews of this client's own rights.
	AccessReviews = gentype.Client[*authorizationv1.SelfSubjectAccessReview]
)

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
	return &Pods{gentype.NewClientWithList("pods", rest.Interface(c.core), c.parameters, namespace,
		func() *corev1.Pod { return &corev1.Pod{} }, func() *corev1.PodList { return &corev1.PodList{} }, gentype.PrefersProtobuf[*corev1.Pod]()), c.parameters}
}

// ConfigMaps returns the client of the config maps of a namespace.
func (c *Client) ConfigMaps(namespace string) *ConfigMaps {
	return gentype.NewClientWithList("configmaps", rest.Interface(c.core), c.parameters, namespace,
		func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func() *corev1.ConfigMapList { return &corev1.ConfigMapList{} },
		gentype.PrefersProtobuf[*corev1.ConfigMap]())
}

// Events returns the client of the events of a namespace.
func (c *Client) Events(namespace string) *Events {
	return gentype.NewClientWithList("events", rest.Interface(c.core), c.parameters, namespace,
		func() *corev1.Event { return &corev1.Event{} }, func() *corev1.EventList { return &corev1.EventList{} },
		gentype.PrefersProtobuf[*corev1.Event]())
}

// Secrets returns the client of the secrets of a namespace.
func (c *Client) Secrets(namespace string) *Secrets {
	return gentype.NewClientWithList("secrets", rest.Interface(c.core), c.parameters, namespace,
		func() *corev1.Secret { return &corev1.Secret{} }, func() *corev1.SecretList { return &corev1.SecretList{} },
		gentype.PrefersProtobuf[*corev1.Secret]())
}

// Leases returns the client of the leases of a namespace.
func (c *Client) Leases(namespace string) *Leases {
	return gentype.NewClientWithList("leases", rest.Interface(c.coordination), c.parameters, namespace,
		func() *coordinationv1.Lease { return &coordinationv1.Lease{} }, func() *coordinationv1.LeaseList { return &coordinationv1.LeaseList{} },
		gentype.PrefersProtobuf[*coordinationv1.Lease]())
}

// AccessReviews returns the client of the reviews of this client's own rights.
func (c *Client) AccessReviews() *AccessReviews {
	return gentype.NewClient("selfsubjectaccessreviews", rest.Interface(c.authorization), c.parameters, "",
		func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		gentype.PrefersProtobuf[*authorizationv1.SelfSubjectAccessReview]())
}

// Pods is the client of the pods of a namespace.
type Pods struct {
	*gentype.ClientWithList[*corev1.Pod, *corev1.PodList]
	parameters runtime.ParameterCodec
}

// GetLogs returns a request for the log of a container.
func (p *Pods) GetLogs(name string, options *corev1.PodLogOptions) *rest.Request {
	return p.GetClient().Get().Namespace(p.GetNamespace()).Name(name).Resource("pods").SubResource("log").VersionedParams(options, p.parameters)
}

// Exec returns a request that runs a program in a container.
func (p *Pods) Exec(name string, options *corev1.PodExecOptions) *rest.Request {
	return p.GetClient().Post().Resource("pods").Namespace(p.GetNamespace()).Name(name).SubResource("exec").VersionedParams(options, p.parameters)
}
