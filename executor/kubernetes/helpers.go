package kubernetes

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/run"
)

// What a helper container requests: it is idle as long as the task's container works.
// Its limits are those of the task.
const (
	helperMilliCPU = 10
	helperMemory   = 16 << 20
)

// addHelpers returns the helper containers of a task, and adds the volumes that they
// need to the pod and to the task's container.
func addHelpers(pod *corev1.Pod, main *corev1.Container, def run.Definition) []corev1.Container {
	if !def.SharesWorkingDir() {
		return nil
	}
	work := workMount(def)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: workVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	main.VolumeMounts = append(main.VolumeMounts, work)
	var helpers []corev1.Container
	for i, image := range def.HelperImages() {
		c := corev1.Container{
			Name: helper.Name(i), Image: image, ImagePullPolicy: pullPolicy(def.PullPolicy),
			Command:         []string{shimPath, "helper", "--dir", taskDir, "--name", helper.Name(i), "--inherit"},
			Resources:       helperResources(main.Resources),
			SecurityContext: main.SecurityContext.DeepCopy(),
			VolumeMounts: []corev1.VolumeMount{
				{Name: toolVolume, MountPath: toolDir, ReadOnly: true},
				{Name: taskVolume, MountPath: taskDir},
				work,
			},
		}
		if len(def.SecretFiles) > 0 { // each container has other users, so each has files of its own
			name := fmt.Sprint(secretsVolume, "-", i)
			pod.Spec.Volumes = append(pod.Spec.Volumes, secretsInMemory(name))
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: secretsDir})
		}
		helpers = append(helpers, c)
	}
	return helpers
}

// workMount returns the mount of the working directory that containers share.
func workMount(def run.Definition) corev1.VolumeMount {
	return corev1.VolumeMount{Name: workVolume, MountPath: path.Clean(def.WorkingDir)}
}

// helperResources returns the requests and limits of a helper container of a task.
func helperResources(task corev1.ResourceRequirements) corev1.ResourceRequirements {
	if len(task.Limits) == 0 {
		return corev1.ResourceRequirements{}
	}
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for name, small := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU:    resource.NewMilliQuantity(helperMilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: resource.NewQuantity(helperMemory, resource.BinarySI),
	} {
		limit, ok := task.Limits[name]
		if !ok {
			continue
		}
		r.Limits[name] = limit
		if r.Requests[name] = *small; small.Cmp(limit) > 0 {
			r.Requests[name] = limit
		}
	}
	return r
}

// secretsInMemory returns a volume for secrets that are files.
func secretsInMemory(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(maxSecrets, resource.BinarySI)},
	}}
}

// helperSpecs returns the part of the order about the helper containers. Their shims
// inherit the variables of the images.
func helperSpecs(def *run.Definition) []run.HelperSpec {
	var specs []run.HelperSpec
	for _, image := range def.HelperImages() {
		specs = append(specs, run.HelperSpec{Image: image})
	}
	return specs
}
