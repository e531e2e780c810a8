package executor

import (
	"path"
	"slices"

	"github.com/drover-run/drover/run"
)

// WithCheckoutImage returns the definition with the image for its checkout steps that
// have none, for drivers of containers. Errors: CodeInvalid if there is no image.
func WithCheckoutImage(d run.Definition, image string) (run.Definition, error) {
	if !slices.ContainsFunc(d.Steps, func(s run.StepDef) bool { return s.Checkout != nil && s.Image == "" }) {
		return d, nil
	}
	if image == "" {
		return d, run.Errorf(run.CodeInvalid, "this executor has no image with git for checkout steps: set executor.checkout_image, or give the step an image with git")
	}
	d.Steps = slices.Clone(d.Steps)
	for i := range d.Steps {
		if s := &d.Steps[i]; s.Checkout != nil && s.Image == "" {
			s.Image = image
		}
	}
	switch {
	case d.WorkingDir == "":
		d.WorkingDir = run.SharedWorkingDir
	case !path.IsAbs(d.WorkingDir) || path.Clean(d.WorkingDir) == "/":
		return d, run.Errorf(run.CodeInvalid, "working_dir is %s; with a checkout step in a container it must be an absolute path below /: it is a volume then", d.WorkingDir)
	}
	return d, nil
}
