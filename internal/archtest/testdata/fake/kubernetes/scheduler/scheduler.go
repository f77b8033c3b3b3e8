// Package scheduler knows more than an address.
package scheduler

import _ "reckon/analysis"
