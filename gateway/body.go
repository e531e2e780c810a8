package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/jsonfault"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// Media types of bodies.
const (
	mediaJSON   = "application/json"
	mediaYAML   = "application/yaml"
	mediaSchema = "application/schema+json"
)

// drainFactor bounds how much of a too large body the gateway reads and discards,
// in multiples of the limit.
const drainFactor = 4

// maxAnonymous bounds the bodies of operations without a token, which anybody may call.
const maxAnonymous = 64 << 10

// anonymousKey marks the requests of operations without a token.
const anonymousKey = "drover.anonymous"

// maxBody returns the longest body of a request in bytes.
func (s *Server) maxBody(c echo.Context) int64 {
	if c.Get(anonymousKey) != nil {
		return min(s.opts.MaxBody, maxAnonymous)
	}
	return s.opts.MaxBody
}

// checkBody refuses bodies with a wrong content type or above the size limit.
// Streamed bodies have no size limit here.
func (s *Server) checkBody(op openapi.Operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				return next(c)
			}
			if err := checkMedia(op, r); err != nil {
				return err
			}
			if op.Scope == "" {
				c.Set(anonymousKey, true)
			}
			if limit := s.maxBody(c); r.ContentLength > limit && !op.Stream {
				return tooLarge(r, limit)
			}
			return next(c)
		}
	}
}

// checkMedia checks the content type against the contract. A call that needs no
// body may come without body and type. A web page can make such a call too, but
// not without an Origin header, which is checked before.
func checkMedia(op openapi.Operation, r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given == "" && r.ContentLength == 0 && !op.Body {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset, limited := params["charset"]
	for _, m := range op.Media {
		if err == nil && m == media && (!limited || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return run.Errorf(run.CodeUnsupportedMedia, "the content type must be %s, not %q", strings.Join(op.Media, " or "), given)
}

// readBody reads and decompresses the whole body, and returns it with its media
// type.
func (s *Server) readBody(c echo.Context) (data []byte, media string, err error) {
	r, limit := c.Request(), s.maxBody(c)
	media, _, _ = mime.ParseMediaType(r.Header.Get("Content-Type"))
	var body io.Reader = http.MaxBytesReader(nil, r.Body, limit)
	switch encoding := r.Header.Get("Content-Encoding"); {
	case encoding == "", encoding == "identity":
	case c.Get(anonymousKey) != nil: // a few bytes could become many
		return nil, "", run.Errorf(run.CodeUnsupportedMedia, "a request without a token has no content encoding, and not %q", encoding)
	case encoding == "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, "", bodyError(r, limit, err)
		}
		body = unpacked
	default:
		return nil, "", run.Errorf(run.CodeUnsupportedMedia, "the content encoding must be gzip or none, not %q", encoding)
	}
	data, err = io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, "", bodyError(r, limit, err)
	}
	if int64(len(data)) > limit {
		return nil, "", tooLarge(r, limit)
	}
	return data, media, nil
}

func bodyError(r *http.Request, limit int64, err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(r, limit)
	}
	return &run.Error{Code: run.CodeUnreadable, Message: "the body was cut off or is badly encoded", Err: err}
}

// tooLarge discards the rest of the body, within bounds: the client would
// otherwise see a broken connection instead of the answer.
func tooLarge(r *http.Request, limit int64) error {
	_, _ = io.CopyN(io.Discard, r.Body, drainFactor*limit)
	return run.Errorf(run.CodeTooLarge, "a request may have at most %d bytes", limit)
}

// strictness selects how decode treats unknown keys.
type strictness int

const (
	strict  strictness = iota // unknown keys are errors: a client must notice a misspelled key
	lenient                   // unknown keys are ignored: executors may be newer than the gateway
)

// decode reads the body into v. An empty body leaves v as it is.
func (s *Server) decode(c echo.Context, v any, unknown strictness) error {
	data, media, err := s.readBody(c)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if media == mediaYAML {
		if data, err = jsonOf(data); err != nil {
			return err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if unknown == strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(v); err != nil {
		return decodeError(data, v, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return run.Errorf(run.CodeUnreadable, "the body has data after its end")
	}
	return nil
}

// jsonOf converts YAML to JSON, for the small bodies. Package spec reads
// specifications.
func jsonOf(data []byte) ([]byte, error) {
	var v any
	if err := spec.DecodeYAML(data, &v); err != nil {
		return nil, err
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, &run.Error{Code: run.CodeUnreadable, Message: "the body has a key that is not a text", Err: err}
	}
	return out, nil
}

// decodeError explains why data was not decoded into v. It distinguishes bodies that
// are not JSON from bodies with wrong contents.
func decodeError(data []byte, v any, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return notJSON(data[:min(max(0, syntax.Offset-1), int64(len(data)))], err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return notJSON(data, err)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return run.InvalidError("the body has a value of the wrong kind", []run.Fault{
			{Path: kind.Field, Code: run.FaultWrongType, Detail: jsonfault.Mismatch(kind)},
		})
	}
	if coded, ok := errors.AsType[*run.Error](err); ok {
		return coded
	}
	var faults []run.Fault
	for _, u := range jsonfault.UnknownKeys(data, v, run.MaxFaults) {
		faults = append(faults, run.Fault{Path: u.Path, Code: run.FaultUnknownField, Detail: u.Detail})
	}
	if strings.HasPrefix(err.Error(), "json: unknown field ") && len(faults) > 0 {
		return run.InvalidError("the body has fields that are not known: "+faults[0].Detail, faults)
	}
	detail := strings.TrimPrefix(err.Error(), "json: ")
	if jsonfault.IsTime(err) {
		detail = "a time such as 2026-01-31T12:00:00Z is expected"
	}
	return run.InvalidError("the body is not valid: "+detail, []run.Fault{{Code: run.CodeInvalid, Detail: detail}})
}

// notJSON returns the error of a body that is JSON only up to its first bytes.
func notJSON(first []byte, err error) error {
	line, detail := 1+bytes.Count(first, []byte("\n")), jsonfault.Explain(err)
	return &run.Error{
		Code: run.CodeUnreadable, Message: fmt.Sprintf("the body is not JSON: line %d: %s", line, detail), Err: err,
		Faults: []run.Fault{{Line: line, Code: run.CodeUnreadable, Detail: detail}},
	}
}

// readRequest reads a specification, which may have an update token beside its
// keys. The service validates specifications too, but only the text has the line
// numbers of faults.
func readRequest(ctx context.Context, data []byte, media string) (*run.Spec, string, error) {
	format := spec.FormatYAML
	if media == mediaJSON {
		format = spec.FormatJSON
	}
	var token string
	parsed, err := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}.ValidateContext(ctx, data, format)
	return parsed, token, err
}

// putBody is the resource in the body of a PUT request.
type putBody[T any] struct {
	resource *T
	data     []byte
	format   spec.Format
}

// readPut reads a resource. The body may repeat the name of the path.
func readPut[T any](
	s *Server, c echo.Context, name string, read func([]byte, spec.Format) (*T, error), nameOf func(*T) string,
) (putBody[T], error) {
	data, media, err := s.readBody(c)
	if err != nil {
		return putBody[T]{}, err
	}
	d := putBody[T]{data: data, format: spec.FormatYAML}
	if media == mediaJSON {
		d.format = spec.FormatJSON
	}
	if d.resource, err = read(data, d.format); err != nil {
		return putBody[T]{}, err
	}
	if own := nameOf(d.resource); own != "" && own != name {
		return putBody[T]{}, run.InvalidError("the name in the body differs from the name in the path", []run.Fault{
			{Path: "name", Code: run.FaultContradiction, Detail: "it differs from the name in the path of the request, " + name},
		})
	}
	return d, nil
}

// locateFaults adds line numbers to the faults of an error.
func (d putBody[T]) locateFaults(err error, locate func([]run.Fault, []byte, spec.Format) []run.Fault) error {
	refused, ok := errors.AsType[*run.Error](err)
	if !ok || len(refused.Faults) == 0 {
		return err
	}
	located := *refused
	located.Faults = locate(refused.Faults, d.data, d.format)
	return &located
}
