// Package codec encrypts what Temporal is told of runs, so that its database,
// its backups and its operators see no more than ids, names and times.
package codec

import (
	"context"
	"fmt"
	"net/http"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/drover-run/drover/keyring"
)

const (
	// encoding and keyID are metadata of an encrypted payload, named as in the
	// samples of Temporal's SDKs, so that its tools show them well.
	encoding = "binary/encrypted"
	keyID    = "encryption-key-id"
	label    = "temporal payload"
)

// Codec encrypts payloads with the first key of a ring and decrypts with all.
// Payloads in the clear, from before there was a key, stay as they are. It is
// safe for concurrent use.
type Codec struct{ keys *keyring.Ring }

var _ converter.PayloadCodec = (*Codec)(nil)

// New returns a Codec; the ring must have a key.
func New(keys *keyring.Ring) *Codec { return &Codec{keys: keys} }

// Encode implements converter.PayloadCodec. It encrypts every payload, also one
// that claims to be encrypted: the metadata is the claim of its sender, and a
// payload that no key opens would make each worker that reads it fail.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypting a payload: %w", err)
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
			return nil, fmt.Errorf("decrypting a payload: %w", err)
		}
		out[i] = new(commonpb.Payload)
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, fmt.Errorf("decrypting a payload: %w", err)
		}
	}
	return out, nil
}

// DialOptions make a connection to Temporal encrypt what is sent and decrypt
// what comes, messages of failures included, whoever uses it: workers, clients,
// and a relay for executors that have no key.
func (c *Codec) DialOptions() ([]grpc.DialOption, error) {
	failures, err := converter.NewFailureGRPCClientInterceptor(converter.NewFailureGRPCClientInterceptorOptions{EncodeCommonAttributes: true})
	if err != nil {
		return nil, fmt.Errorf("encrypting failures: %w", err)
	}
	payloads, err := converter.NewPayloadCodecGRPCClientInterceptor(converter.PayloadCodecGRPCClientInterceptorOptions{
		Codecs: []converter.PayloadCodec{c},
	})
	if err != nil {
		return nil, fmt.Errorf("encrypting payloads: %w", err)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(ownRequest, failures, payloads)}, nil
}

// ownRequest gives each attempt of a call a copy of the request. The
// interceptors after it encrypt the request in place, and the SDK repeats a call
// with the same request: without the copy, a second attempt would encrypt what
// the first one encrypted.
func ownRequest(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if message, ok := req.(proto.Message); ok {
		req = proto.Clone(message)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Handler answers POST .../encode and .../decode as Temporal's web UI and
// command line ask a codec server.
func (c *Codec) Handler() http.Handler { return converter.NewPayloadCodecHTTPHandler(c) }
