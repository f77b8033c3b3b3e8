package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
)

// startObstacle returns why a valid set cannot start now. The obstacle can go away.
func (s *reconciliation) startObstacle(ctx context.Context) (reason, message string) {
	for i := range s.set.Metrics {
		m := &s.set.Metrics[i]
		if m.Attach == metricset.AttachAgent && !s.Server {
			return v1alpha2.ReasonNoServer,
				fmt.Sprintf(
					"%s is to be measured by the agent of its node, and there is no reckon server that has its figures; write "+
						"options.attach: sidecar, or give the operator --server", m.Job)
		}
		if m.Attach == metricset.AttachEphemeral && !s.Ephemeral {
			return v1alpha2.ReasonNotAllowed,
				fmt.Sprintf("%s adds a container to pods that run already, and the operator may not (--ephemeral)", m.Job)
		}
		for _, e := range m.Addons {
			var object client.Object
			kind, name := "", ""
			switch e.Name {
			case "volume-pvc":
				object, kind, name = &core.PersistentVolumeClaim{}, "PersistentVolumeClaim", e.Values["claimName"]
			case "volume-cm":
				object, kind, name = &core.ConfigMap{}, "ConfigMap", e.Values["configMapName"]
			default:
				continue
			}
			err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.ms.Namespace, Name: name}, object)
			if apierrors.IsNotFound(err) {
				return v1alpha2.ReasonVolumeNotFound,
					fmt.Sprintf("%s: the volume %s needs the %s %s, which is not in this namespace; make it, and the set starts", m.Job,
						e.Values["name"], kind, name)
			}
		}
	}
	return "", ""
}

// createObjects creates the objects of a set. Existing objects of ours are left unchanged.
func (s *reconciliation) createObjects(ctx context.Context, hash string) (refused bool, err error) {
	o, err := jobs.Build(s.set, s.Jobs)
	if err != nil {
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonInvalid, err.Error())
		return true, nil
	}
	if o.JobSet == nil {
		return false, nil
	}
	o.JobSet.Annotations = map[string]string{annotationHash: hash}
	if err := s.shareService(ctx, o.Service); err != nil {
		return s.userError(err)
	}
	var objects []client.Object
	if o.ConfigMap != nil {
		objects = append(objects, o.ConfigMap)
	}
	for _, object := range append(objects, o.JobSet) {
		if err := controllerutil.SetControllerReference(s.ms, object, s.Client.Scheme()); err != nil {
			return true, err
		}
		if err := s.createOwned(ctx, object); err != nil {
			return s.userError(err)
		}
	}
	return false, nil
}

// errTaken means that an object of another owner has our name.
var errTaken = errors.New("belongs to somebody else")

// createOwned creates an object unless it exists and belongs to this set.
func (s *reconciliation) createOwned(ctx context.Context, object client.Object) error {
	err := s.Client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if !metav1.IsControlledBy(object, s.ms) {
		return fmt.Errorf("%T %s %w; rename the set", object, object.GetName(), errTaken)
	}
	return nil
}

// shareService creates the headless service, or adds this set to the sets that use it. The service is deleted with the
// last of these sets. The lock prevents concurrent changes by several sets.
func (s *reconciliation) shareService(ctx context.Context, service *core.Service) error {
	s.services.Lock()
	defer s.services.Unlock()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.joinService(ctx, service.DeepCopy()) })
}

func (s *reconciliation) joinService(ctx context.Context, service *core.Service) error {
	if err := controllerutil.SetOwnerReference(s.ms, service, s.Client.Scheme()); err != nil {
		return err
	}
	err := s.Client.Create(ctx, service)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &core.Service{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(service), there); err != nil {
		return err
	}
	if there.Labels[jobs.LabelManaged] != jobs.Manager {
		return fmt.Errorf("service %s %w; write another spec.serviceName", service.Name, errTaken)
	}
	if slices.ContainsFunc(there.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == s.ms.UID }) {
		return nil
	}
	if err := controllerutil.SetOwnerReference(s.ms, there, s.Client.Scheme()); err != nil {
		return err
	}
	return s.Client.Update(ctx, there)
}

// userError turns errors that users can fix into a condition, and returns all others for a retry.
func (s *reconciliation) userError(err error) (bool, error) {
	switch {
	case errors.Is(err, errTaken):
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonNameTaken, err.Error())
		return true, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonQuotaExceeded, err.Error())
		return true, nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonNotAllowed, err.Error())
		return true, nil
	}
	return true, err
}
