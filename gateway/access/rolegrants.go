package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/jsonfault"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// RoleGrantOperations implements the operations of the contract on role grants.
type RoleGrantOperations struct {
	Grants run.RoleGrantsAPI // nil: not_supported
	// Decode reads the body of a call.
	Decode func(c echo.Context, v any) error
	// Caller returns the name of the caller, and Reaffirm checks the caller again.
	Caller   func(c echo.Context) string
	Reaffirm func(c echo.Context) error
	// Describe adds the rights that a call gives to its record in the audit log.
	Describe func(c echo.Context, name string, rights any) error
	// Location returns the path of a list.
	Location func(name string) string
}

// errNoProvider is the error of gateways without run.RoleGrantsAPI.
func errNoProvider() error {
	return run.Errorf(run.CodeNotSupported, "this gateway has no identity provider (gateway.oidc), so there are no users to grant roles to")
}

// ListRoleGrants implements gateway.ServerInterface.
func (o *RoleGrantOperations) ListRoleGrants(c echo.Context) error {
	if o.Grants == nil {
		return errNoProvider()
	}
	all, err := o.Grants.ListRoleGrants(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.RoleGrantsList{Issuer: all.Issuer, Rolegrants: make([]api.RoleGrants, len(all.Stored))}
	for i, g := range all.Stored {
		v.Rolegrants[i] = viewRoleGrants(g)
	}
	if all.File != nil {
		v.File = viewGrants(all.File)
	}
	return c.JSON(http.StatusOK, v)
}

// GetRoleGrants implements gateway.ServerInterface.
func (o *RoleGrantOperations) GetRoleGrants(c echo.Context, name string) error {
	if o.Grants == nil {
		return errNoProvider()
	}
	g, err := o.Grants.GetRoleGrants(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewRoleGrants(g))
}

// PutRoleGrants implements gateway.ServerInterface.
func (o *RoleGrantOperations) PutRoleGrants(c echo.Context, name string) error {
	if o.Grants == nil {
		return errNoProvider()
	}
	var body struct {
		Grants  []json.RawMessage `json:"grants"` // read one by one, so that faults name the entry
		Note    string            `json:"note"`
		Version json.RawMessage   `json:"version"` // null is not the same as none
	}
	if err := o.Decode(c, &body); err != nil {
		return err
	}
	grants, err := readGrants(body.Grants)
	if err != nil {
		return err
	}
	version, err := readVersion(body.Version)
	if err != nil {
		return err
	}
	if err := o.Describe(c, name, viewGrants(grants)); err != nil {
		return err
	}
	if err := o.Reaffirm(c); err != nil {
		return err
	}
	g, created, err := o.Grants.PutRoleGrants(c.Request().Context(), run.RoleGrants{Name: name, Grants: grants, Note: body.Note}, version, o.Caller(c))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", o.Location(name))
	}
	return c.JSON(status, viewRoleGrants(g))
}

// DeleteRoleGrants implements gateway.ServerInterface.
func (o *RoleGrantOperations) DeleteRoleGrants(c echo.Context, name string, params api.DeleteRoleGrantsParams) error {
	if o.Grants == nil {
		return errNoProvider()
	}
	if err := o.Decode(c, &struct{}{}); err != nil {
		return err
	}
	if err := o.Reaffirm(c); err != nil {
		return err
	}
	if err := o.Grants.DeleteRoleGrants(c.Request().Context(), name, params.Version, o.Caller(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// readVersion reads the version that a client expects, nil for any.
func readVersion(text json.RawMessage) (*int64, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // none is valid
	}
	var version *int64
	if err := json.Unmarshal(text, &version); err != nil || version == nil || *version < 0 {
		return nil, run.InvalidError("the version is not valid", []run.Fault{{Path: "version", Code: run.FaultBadValue, Detail: "version is that of the list which the grants replace, or 0 if there must be none"}})
	}
	return version, nil
}

// readGrants reads the grants of a body. The error has all faults.
func readGrants(entries []json.RawMessage) ([]run.RoleGrant, error) {
	if entries == nil { // and not an empty list
		return nil, run.InvalidError("grants is missing", []run.Fault{{Path: "grants", Code: run.FaultRequired, Detail: "grants is missing; [] is no grant"}})
	}
	if len(entries) > run.MaxRoleGrants { // a fault for each would be an endless answer
		return nil, run.InvalidError("there are too many role grants", []run.Fault{{
			Path: "grants", Code: run.FaultOverLimit, Detail: fmt.Sprintf("there are %d grants; the limit is %d", len(entries), run.MaxRoleGrants),
		}})
	}
	grants, faults := make([]run.RoleGrant, len(entries)), []run.Fault(nil)
	for i, entry := range entries {
		at := fmt.Sprintf("grants[%d]", i)
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(entry, &keys); err != nil || keys == nil {
			faults = append(faults, run.Fault{Path: at, Code: run.FaultWrongType, Detail: "a grant has the keys subject or members, role and groups"})
			continue
		}
		faults = append(faults, readGrant(at, keys, &grants[i])...)
	}
	if len(faults) == 0 {
		faults = roles.CheckGrants(grants)
	}
	if len(faults) > 0 {
		return nil, run.InvalidError("the role grants are not valid", faults)
	}
	return grants, nil
}

// readGrant reads a grant by its keys, of which Go would ignore the case.
func readGrant(at string, keys map[string]json.RawMessage, into *run.RoleGrant) []run.Fault {
	var faults []run.Fault
	known := map[string]any{"subject": &into.Subject, "members": &into.Members, "role": &into.Role, "groups": &into.Groups}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		v, ok := known[key]
		if !ok {
			faults = append(faults, run.Fault{Path: at + "." + key, Code: run.FaultUnknownField, Detail: fmt.Sprintf("%q is no key of a grant: subject, members, role, groups", key)})
			continue
		}
		err := json.Unmarshal(keys[key], v)
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			faults = append(faults, run.Fault{Path: at + "." + key, Code: run.FaultWrongType, Detail: jsonfault.Mismatch(kind)})
		} else if err != nil || bytes.Equal(keys[key], []byte("null")) {
			faults = append(faults, run.Fault{Path: at + "." + key, Code: run.FaultWrongType, Detail: "there is no value: leave the key out"})
		}
	}
	return faults
}

func viewRoleGrants(g run.RoleGrants) api.RoleGrants {
	return api.RoleGrants{
		Name: g.Name, Issuer: g.Issuer, Grants: viewGrants(g.Grants), Unknown: g.Unknown, Note: g.Note,
		Version: g.Version, UpdatedAt: g.UpdatedAt.UTC(), UpdatedBy: g.UpdatedBy,
	}
}

func viewGrants(grants []run.RoleGrant) []api.RoleGrant {
	out := make([]api.RoleGrant, len(grants))
	for i, g := range grants {
		out[i] = api.RoleGrant{Subject: g.Subject, Members: g.Members, Role: api.RoleGrantRole(g.Role), Groups: g.Groups}
	}
	return out
}
