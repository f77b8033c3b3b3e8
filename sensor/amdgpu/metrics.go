package amdgpu

import (
	"encoding/binary"
	"fmt"
)

// tableField is a field of gpu_metrics that we use.
type tableField uint8

const (
	gfxActivity       tableField = iota // percent, short-term mean
	memoryActivity                      // percent, of the memory controller
	mediaActivity                       // percent
	temperatureHot                      // degrees Celsius
	temperatureMem                      // degrees Celsius
	socketPower                         // watts
	energyUnits                         // 2^-16 joules since the driver was loaded
	accumulations                       // number of additions to the accumulators below
	gfxAccumulated                      // percent, accumulated
	memoryAccumulated                   // percent, accumulated
	prochotResidency                    // number of times that it throttled the clocks
	powerResidency
	thermalResidency
	regulatorResidency
	memoryThermalResidency
	throttleBits  // see the throttle* masks
	memoryClock   // megahertz
	graphicsClock // megahertz
	pcieReplays   // retransmitted packets, since the driver was loaded
	linkRead      // kilobytes over all XGMI links
	linkWritten
	tableFields
)

// links is the size of a field with one 8-byte counter per XGMI link (NUM_XGMI_LINKS). The counters are summed.
const links = 8 * 8

// fieldPosition is the position of a field: its offset, and its width in bytes.
type fieldPosition struct {
	what       tableField
	offset, by uint16
}

// tableLayout is one revision of the table.
type tableLayout struct {
	format, content uint8
	size            uint16 // minimum size that includes the fields
	fields          []fieldPosition
}

// dgpuFields returns the common fields of revisions 1.1 to 1.3.
func dgpuFields(extra ...fieldPosition) []fieldPosition {
	return append([]fieldPosition{{temperatureHot, 6, 2}, {temperatureMem, 8, 2}, {gfxActivity, 16, 2}, {memoryActivity, 18, 2},
		{mediaActivity, 20, 2},
		{socketPower, 22, 2}, {graphicsClock, 54, 2}, {memoryClock, 58, 2}}, extra...)
}

// knownLayouts returns the supported revisions of struct gpu_metrics in drivers/gpu/drm/amd/include/kgd_pp_interface.h,
// aligned as on 64-bit machines. Some figures are read from hwmon instead, because their units differ between drivers
// of one revision. These are power, temperatures and clocks in revisions 2 and 3, and energy before 1.4.
func knownLayouts() []tableLayout {
	return []tableLayout{
		{
			1, 0, 80, []fieldPosition{{temperatureHot, 18, 2}, {temperatureMem, 20, 2}, {gfxActivity, 28, 2}, {memoryActivity, 30, 2},
				{mediaActivity, 32, 2},
				{socketPower, 34, 2}, {graphicsClock, 54, 2}, {memoryClock, 58, 2}}},
		{1, 1, 96, dgpuFields()},
		{1, 2, 104, dgpuFields()},
		{1, 3, 120, dgpuFields(fieldPosition{throttleBits, 112, 8})},
		{
			1, 4, 288, []fieldPosition{{temperatureHot, 4, 2}, {temperatureMem, 6, 2}, {socketPower, 10, 2}, {gfxActivity, 12, 2},
				{memoryActivity, 14, 2},
				{mediaActivity, 16, 2}, {energyUnits, 24, 8}, {graphicsClock, 240, 2}, {memoryClock, 280, 2}, {pcieReplays, 88, 8},
				{linkRead, 104, links}, {linkWritten, 168, links}}},
		{
			1, 5, 360, []fieldPosition{{temperatureHot, 4, 2}, {temperatureMem, 6, 2}, {socketPower, 10, 2}, {gfxActivity, 12, 2},
				{memoryActivity, 14, 2},
				{mediaActivity, 16, 2}, {energyUnits, 88, 8}, {graphicsClock, 312, 2}, {memoryClock, 352, 2}, {pcieReplays, 152, 8},
				{linkRead, 176, links}, {linkWritten, 240, links}}},
		{
			1, 6, 308, []fieldPosition{{temperatureHot, 4, 2}, {temperatureMem, 6, 2}, {socketPower, 10, 2}, {gfxActivity, 12, 2},
				{memoryActivity, 14, 2},
				{energyUnits, 16, 8}, {accumulations, 32, 4}, {prochotResidency, 36, 4}, {powerResidency, 40, 4}, {thermalResidency, 44, 4},
				{regulatorResidency, 48, 4}, {memoryThermalResidency, 52, 4}, {gfxAccumulated, 68, 4}, {memoryAccumulated, 72, 4},
				{graphicsClock, 264, 2}, {memoryClock, 304, 2}, {pcieReplays, 104, 8}, {linkRead, 128, links}, {linkWritten, 192, links}}},
		{1, 7, 340, acceleratorFields()},
		{1, 8, 340, acceleratorFields()},
		{2, 0, 4, nil},
		{2, 1, 4, nil},
		{2, 2, 128, []fieldPosition{{throttleBits, 120, 8}}},
		{2, 3, 152, []fieldPosition{{throttleBits, 120, 8}}},
		{2, 4, 164, []fieldPosition{{throttleBits, 120, 8}}},
		{3, 0, 4, nil},
	}
}

// acceleratorFields returns the fields of revisions 1.7 and 1.8.
func acceleratorFields() []fieldPosition {
	return []fieldPosition{{temperatureHot, 4, 2}, {temperatureMem, 6, 2}, {socketPower, 10, 2}, {gfxActivity, 12, 2}, {memoryActivity, 14,
		2},
		{energyUnits, 24, 8}, {accumulations, 40, 4}, {prochotResidency, 44, 4}, {powerResidency, 48, 4}, {thermalResidency, 52, 4},
		{regulatorResidency, 56, 4}, {memoryThermalResidency, 60, 4}, {gfxAccumulated, 76, 4}, {memoryAccumulated, 80, 4},
		{graphicsClock, 296, 2}, {memoryClock, 336, 2}, {pcieReplays, 112, 8}, {linkRead, 136, links}, {linkWritten, 200, links}}
}

// Bits of the throttle status that is common to all chips (SMU_THROTTLER_* in
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h).
const (
	throttlePower   = uint64(0xffffffff)                  // power and current: bits 0 to 31
	throttleThermal = uint64(0xffffff) << 32 &^ (3 << 44) // temperature: bits 32 to 55
	throttleProchot = uint64(3) << 44
)

// metricsTable is one decoded reading of gpu_metrics.
type metricsTable struct {
	value [tableFields]uint64
	has   [tableFields]bool
}

// decode decodes b into t with the layout named in its header. Fields that the driver filled with ones are unknown.
func (t *metricsTable) decode(b []byte, known []tableLayout) error {
	*t = metricsTable{}
	if len(b) < 4 {
		return fmt.Errorf("gpu_metrics has %d bytes, no header", len(b))
	}
	size := int(binary.LittleEndian.Uint16(b))
	for i := range known {
		l := &known[i]
		if l.format != b[2] || l.content != b[3] {
			continue
		}
		if n := min(size, len(b)); n < int(l.size) {
			return fmt.Errorf("gpu_metrics %d.%d has %d bytes, %d are needed", b[2], b[3], n, l.size)
		}
		for _, f := range l.fields {
			t.decodeField(f, b)
		}
		if t.has[temperatureHot] && t.value[temperatureHot] == 0 {
			// No die is at 0 degrees: firmware of the MI50 leaves the table at zero while the device works.
			for _, f := range []tableField{temperatureHot, temperatureMem, graphicsClock, memoryClock, gfxActivity, memoryActivity,
				mediaActivity,
				socketPower} {
				t.has[f] = t.has[f] && t.value[f] != 0
			}
		}
		return nil
	}
	return fmt.Errorf("gpu_metrics has revision %d.%d, which this program does not know", b[2], b[3])
}

func (t *metricsTable) decodeField(f fieldPosition, b []byte) {
	if f.by == links {
		t.sumLinks(f, b[f.offset:])
		return
	}
	var v, blank uint64
	switch b = b[f.offset:]; f.by {
	case 2:
		v, blank = uint64(binary.LittleEndian.Uint16(b)), 0xffff
	case 4:
		v, blank = uint64(binary.LittleEndian.Uint32(b)), 0xffffffff
	default:
		v, blank = binary.LittleEndian.Uint64(b), ^uint64(0)
	}
	t.value[f.what], t.has[f.what] = v, v != blank
}

// sumLinks adds up the counters of all links of the chip. Counters of absent links are blank.
func (t *metricsTable) sumLinks(f fieldPosition, b []byte) {
	for i := range links / 8 {
		if v := binary.LittleEndian.Uint64(b[8*i:]); v != ^uint64(0) {
			t.value[f.what], t.has[f.what] = t.value[f.what]+v, true
		}
	}
}
