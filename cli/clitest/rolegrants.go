package clitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/roles"
)

// roleGrants has the role grants of a gateway, and the grants in its file.
type roleGrants struct {
	mu      sync.Mutex
	lists   map[string]api.RoleGrants
	bodies  map[string]string
	version int64
}

// issuer is the provider of the gateway.
const issuer = "https://login.example.com"

// serveRoleGrants serves role grants. A role that is not viewer or admin is not valid, nor
// is a user with the prefix oidc:.
func serveRoleGrants(mux *http.ServeMux) {
	g := &roleGrants{lists: map[string]api.RoleGrants{
		"old": {Name: "old", Issuer: "https://old.example.com", Version: 1, UpdatedAt: Start(), UpdatedBy: "ben", Unknown: 2, Grants: []api.RoleGrant{}},
	}, bodies: map[string]string{}, version: 1}
	mux.HandleFunc("GET /api/v1/rolegrants", g.list)
	mux.HandleFunc("GET /api/v1/rolegrants/{name}", g.get)
	mux.HandleFunc("PUT /api/v1/rolegrants/{name}", g.put)
	mux.HandleFunc("DELETE /api/v1/rolegrants/{name}", g.remove)
}

func (g *roleGrants) list(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := api.RoleGrantsList{Issuer: issuer, Rolegrants: []api.RoleGrants{}, File: []api.RoleGrant{{Subject: "*", Role: "viewer", Groups: []string{"/shared/**"}}}}
	for _, name := range slices.Sorted(maps.Keys(g.lists)) {
		all.Rolegrants = append(all.Rolegrants, g.lists[name])
	}
	answer(w, http.StatusOK, all)
}

func (g *roleGrants) get(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, known := g.lists[r.PathValue("name")]
	if !known {
		notFound(w, "list", r.PathValue("name"))
		return
	}
	answer(w, http.StatusOK, x)
}

func (g *roleGrants) put(w http.ResponseWriter, r *http.Request) {
	var body api.RoleGrantsSpec
	text, err := io.ReadAll(r.Body)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err != nil || decoder.Decode(&body) != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not valid")
		return
	}
	for i, x := range body.Grants {
		if why := roles.Prefixed(x.Subject, "oidc:"); why != "" {
			problem(w, http.StatusUnprocessableEntity, "invalid", "the grants are not valid", api.Fault{Path: fmt.Sprintf("grants[%d].subject", i), Code: "bad_value", Detail: why})
			return
		}
		if x.Role != api.RoleGrantRoleAdmin && x.Role != api.RoleGrantRoleViewer {
			problem(w, http.StatusUnprocessableEntity, "invalid", "the grants are not valid", api.Fault{
				Path: fmt.Sprintf("grants[%d].role", i), Code: "bad_value", Detail: fmt.Sprintf("%q is not a role", x.Role),
			})
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := r.PathValue("name")
	before, known := g.lists[name]
	if body.Version != nil && *body.Version != before.Version {
		problem(w, http.StatusConflict, "conflict", "ana changed the role grants "+name)
		return
	}
	body.Version = nil
	content, err := json.Marshal(body)
	if err != nil {
		problem(w, http.StatusInternalServerError, "internal", "")
		return
	}
	if known && g.bodies[name] == string(content) {
		answer(w, http.StatusOK, before)
		return
	}
	g.version++
	g.bodies[name] = string(content)
	g.lists[name] = api.RoleGrants{Name: name, Issuer: issuer, Grants: body.Grants, Note: body.Note, Version: g.version, UpdatedAt: Start(), UpdatedBy: "ana"}
	answer(w, http.StatusOK, g.lists[name])
}

func (g *roleGrants) remove(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.lists[r.PathValue("name")]; !known {
		notFound(w, "list", r.PathValue("name"))
		return
	}
	delete(g.lists, r.PathValue("name"))
	w.WriteHeader(http.StatusNoContent)
}
