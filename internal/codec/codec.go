// Package codec encrypts the payloads that Drover sends to Temporal, so that
// its database, its backups and its operators see no more than ids, names and
// times.
package codec

import (
	"context"
	"fmt"
	"net/http"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/drover-run/drover/internal/keyring"
)

const (
	// encoding and keyID are metadata of an encrypted payload, named as in the
	// samples of Temporal's SDKs, so that Temporal's tools recognize them.
	encoding = "binary/encrypted"
	keyID    = "encryption-key-id"
	label    = "temporal payload"
)

// Codec encrypts payloads with the first key of a ring and decrypts with all.
// It leaves payloads in the clear, from before there was a key, unchanged. It
// is safe for concurrent use.
type Codec struct{ keys *keyring.Ring }

var _ converter.PayloadCodec = (*Codec)(nil)

// New returns a Codec; the ring must have a key.
func New(keys *keyring.Ring) *Codec { return &Codec{keys: keys} }

// Encode implements converter.PayloadCodec. It encrypts every payload, also one
// whose metadata says that it is encrypted: the sender sets the metadata, and a
// payload that no key opens would make each worker that reads it fail.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		id, sealed := c.keys.Encrypt(label, plain)
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), keyID: []byte(id)},
			Data:     sealed,
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec. Errors are those of the ring's
// Decrypt.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			out[i] = p
			continue
		}
		plain, err := c.keys.Decrypt(string(p.GetMetadata()[keyID]), label, p.GetData())
		if err != nil {
			return nil, fmt.Errorf("decrypt a payload: %w", err)
		}
		out[i] = new(commonpb.Payload)
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, fmt.Errorf("decrypt a payload: %w", err)
		}
	}
	return out, nil
}

// DialOptions returns options that make a connection to Temporal encrypt
// requests and decrypt responses, including failure messages. Workers, clients,
// and a relay for executors without a key use them.
func (c *Codec) DialOptions() ([]grpc.DialOption, error) {
	failures, err := converter.NewFailureGRPCClientInterceptor(converter.NewFailureGRPCClientInterceptorOptions{EncodeCommonAttributes: true})
	if err != nil {
		return nil, fmt.Errorf("create the failure interceptor: %w", err)
	}
	payloads, err := converter.NewPayloadCodecGRPCClientInterceptor(converter.PayloadCodecGRPCClientInterceptorOptions{
		Codecs: []converter.PayloadCodec{c},
	})
	if err != nil {
		return nil, fmt.Errorf("create the payload interceptor: %w", err)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(cloneRequest, failures, payloads)}, nil
}

// cloneRequest passes a copy of the request to each attempt of a call. The
// interceptors after it encrypt the request in place, and the SDK retries a
// call with the same request: without the copy, a second attempt would encrypt
// the request again.
func cloneRequest(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if message, ok := req.(proto.Message); ok {
		req = proto.Clone(message)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Handler serves POST .../encode and .../decode in the protocol of codec
// servers, for Temporal's web UI and command line.
func (c *Codec) Handler() http.Handler { return converter.NewPayloadCodecHTTPHandler(c) }
