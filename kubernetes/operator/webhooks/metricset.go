// Package webhooks answers the API server before it stores an object: it converts MetricSets, or
// refuses them with the field and the remedy, and adds a log collector to annotated pods. Handlers
// hold no state and are safe for concurrent use.
package webhooks

import (
	"context"
	"encoding/json"
	"net/http"

	admission "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	admissionhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

// Paths that the webhook configurations of the chart name.
const (
	PathConvert  = "/convert-metricset"
	PathValidate = "/validate-metricset"
	PathLogs     = "/mutate-pod"
)

// Register registers all handlers with a server.
func Register(s webhook.Server, logs *Logs) {
	s.Register(PathConvert, &webhook.Admission{Handler: admissionhook.HandlerFunc(handleConvert)})
	s.Register(PathValidate, &webhook.Admission{Handler: admissionhook.HandlerFunc(handleValidate)})
	if logs != nil {
		s.Register(PathLogs, &webhook.Admission{Handler: logs})
	}
}

// handleConvert moves older fields to their current place, so that the stored set matches the running one.
func handleConvert(_ context.Context, req admissionhook.Request) admissionhook.Response {
	ms := &v1alpha2.MetricSet{}
	if err := json.Unmarshal(req.Object.Raw, ms); err != nil {
		return admissionhook.Errored(http.StatusBadRequest, err)
	}
	before := ms.Spec.DeepCopy()
	notes, problems := metricset.Convert(&ms.Spec)
	if len(problems) > 0 || len(notes) == 0 || equality.Semantic.DeepEqual(before, &ms.Spec) {
		return admissionhook.Allowed("") // validate names the problems
	}
	if _, problems := metricset.Read(&v1alpha2.MetricSet{ObjectMeta: ms.ObjectMeta, Spec: *before}); len(problems) > 0 {
		return admissionhook.Allowed("") // validate names them by the fields of the file, as it was written
	}
	text, err := json.Marshal(ms)
	if err != nil {
		return admissionhook.Errored(http.StatusInternalServerError, err)
	}
	return admissionhook.PatchResponseFromRaw(req.Object.Raw, text).WithWarnings(notes...)
}

// handleValidate rejects sets that cannot run, and changes of running ones.
func handleValidate(_ context.Context, req admissionhook.Request) admissionhook.Response {
	ms := &v1alpha2.MetricSet{}
	if err := json.Unmarshal(req.Object.Raw, ms); err != nil {
		return admissionhook.Errored(http.StatusBadRequest, err)
	}
	if req.Name != "" {
		ms.Name = req.Name
	}
	ms.Namespace = req.Namespace
	if req.Operation == admission.Update {
		old := &v1alpha2.MetricSet{}
		if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
			return admissionhook.Errored(http.StatusBadRequest, err)
		}
		if !ms.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(old.Spec, ms.Spec) {
			return admissionhook.Allowed("") // labels, owners and finalizers
		}
		if old.Status.SpecHash != "" {
			return admissionhook.Denied("spec: a measurement that has begun cannot change; delete the set and apply it again")
		}
	}
	set, problems := metricset.Read(ms)
	if len(problems) > 0 {
		message := ""
		for i, p := range problems {
			if i > 0 {
				message += "\n"
			}
			message += p.Error()
		}
		return admissionhook.Denied(message)
	}
	return admissionhook.Allowed("").WithWarnings(set.Warnings...)
}
