package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

const mediaProblem = "application/problem+json"

// headerState distinguishes the two meanings of forbidden: an executor that was
// removed, and a token without the permission. Only the first becomes
// CodeForbidden: an executor that was removed abandons its tasks.
const headerState = "Drover-Executor-State"

// maxProblem bounds how much of a problem document is read.
const maxProblem = 1 << 20

var errTimeout = errors.New("no response in time")

// transportError returns why there was no response from the gateway. A cancellation
// by the caller is returned as such; after any other error a retry may succeed.
func transportError(caller, limited context.Context, err error) error {
	return unreachable("the gateway", caller, limited, err)
}

func unreachable(peer string, caller, limited context.Context, err error) error {
	if cause := context.Cause(caller); cause != nil {
		return cause
	}
	if cause := context.Cause(limited); cause != nil {
		err = cause
	}
	return &run.Error{Code: run.CodeUnavailable, Message: peer + " is unreachable: " + err.Error(), Err: err}
}

// answerError converts a response that is not a success to the error of the
// gateway.
func answerError(r *http.Response) error {
	if r.StatusCode >= 200 && r.StatusCode <= 299 {
		return nil
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var p api.Problem
	if media == mediaProblem && json.NewDecoder(io.LimitReader(r.Body, maxProblem)).Decode(&p) == nil && known(run.Code(p.Code)) {
		e := &run.Error{Code: run.Code(p.Code), Message: p.Detail}
		if r.StatusCode == http.StatusUnauthorized { // also if the token expired or was revoked: it may be replaced
			e.Code = run.CodeUnauthenticated
		}
		if e.Code == run.CodeForbidden && r.Header.Get(headerState) != string(run.ExecutorRemoved) {
			e.Code = run.CodeUnauthenticated
		}
		if e.Message == "" {
			e.Message = p.Title
		}
		for _, f := range p.Errors {
			e.Faults = append(e.Faults, run.Fault{Path: f.Path, Line: f.Line, Code: run.Code(f.Code), Detail: f.Detail})
		}
		return e
	}
	return foreignError(r)
}

// foreignError is for responses that are not the gateway's, such as those of a
// proxy in front of it: they say nothing about executors or claims.
func foreignError(r *http.Response) error {
	switch {
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests:
		return run.Errorf(run.CodeUnavailable, "the gateway is unreachable: HTTP status %s", r.Status)
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		return run.Errorf(run.CodeUnauthenticated, "the call is not allowed: HTTP status %s", r.Status)
	}
	return run.Errorf(run.CodeInternal, "the response is not from a gateway: HTTP status %s", r.Status)
}

func known(code run.Code) bool {
	return slices.Contains([]run.Code{
		run.CodeInvalid, run.CodeUnreadable, run.CodeNotFound, run.CodeGone, run.CodeConflict, run.CodeClaimed, run.CodeUnauthenticated, run.CodeTokenExpired,
		run.CodeTokenRevoked, run.CodeForbidden,
		run.CodeTooLarge, run.CodeUnsupportedMedia, run.CodeNotSupported, run.CodeExhausted, run.CodeUnavailable,
		run.CodeTimeout, run.CodeCanceled, run.CodeInternal,
	}, code)
}
