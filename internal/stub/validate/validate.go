// Package validate stands in for the package of this name: the four checks that the models of
// Alertmanager's API call. The original also brings all that reads and expands descriptions of APIs.
package validate

import (
	"reflect"

	"github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"
)

// EnumCase refuses what is none of values, a slice of the type of value.
func EnumCase(path, in string, value, values any, _ bool) *errors.Validation {
	list := reflect.ValueOf(values)
	allowed := make([]any, 0, list.Len())
	for i := range list.Len() {
		one := list.Index(i).Interface()
		if reflect.DeepEqual(value, one) {
			return nil
		}
		allowed = append(allowed, one)
	}
	return errors.EnumFail(path, in, value, allowed)
}

// FormatOf refuses text that does not have the format, such as "date-time".
func FormatOf(path, in, format, text string, formats strfmt.Registry) *errors.Validation {
	switch {
	case !formats.ContainsName(format):
		return errors.InvalidTypeName(format)
	case !formats.Validates(format, text):
		return errors.InvalidType(path, in, format, text)
	}
	return nil
}

// MinItems refuses a list with fewer items than least.
func MinItems(path, in string, items, least int64) *errors.Validation {
	if items < least {
		return errors.TooFewItems(path, in, least, items)
	}
	return nil
}

// Required refuses the zero value of a type, and nil.
func Required(path, in string, value any) *errors.Validation {
	if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() {
		return errors.Required(path, in, value)
	}
	return nil
}
