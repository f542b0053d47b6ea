#include "format/jpeg_coefficients.h"

#include <algorithm>
#include <utility>

#include "format/checksum.h"
#include "format/libjpeg.h"

namespace pcrfs {
namespace {

JpegContent::Component ComponentFacts(const jpeg_component_info& info) {
  JpegContent::Component component;
  component.id = info.component_id;
  component.h_sampling = info.h_samp_factor;
  component.v_sampling = info.v_samp_factor;
  component.width_in_blocks = info.width_in_blocks;
  component.height_in_blocks = info.height_in_blocks;
  if (info.quant_table != nullptr)
    std::copy_n(info.quant_table->quantval, component.quant_table.size(), component.quant_table.begin());
  return component;
}

}  // namespace

struct JpegCoefficients::State {
  LibjpegFence fence;
  jpeg_decompress_struct info{};
  jvirt_barray_ptr* arrays = nullptr;
  std::vector<std::vector<const CoefficientBlock*>> rows;  // by component
  JpegContent content;

  State() { fence.Guard(info); }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<void> Read(ByteSpan jpeg) {
    const bool done = fence.Run([this, jpeg] {
      jpeg_create_decompress(&info);
      LiftMemoryLimit(info);
      jpeg_mem_src(&info, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
      jpeg_read_header(&info, TRUE);
      arrays = jpeg_read_coefficients(&info);
    });
    if (!done || arrays == nullptr) return Fail(ErrorCode::kDamaged, fence.text());
    GiveTablesSlots();
    for (int i = 0; i < info.num_components; ++i) rows.emplace_back(info.comp_info[i].height_in_blocks);
    if (!fence.Run([this] { FindRows(); })) return Fail(ErrorCode::kDamaged, fence.text());
    return {};
  }

  // A slot may be defined anew between scans; a component keeps the table that its slot held at its first scan. Of
  // tables that shared a slot, the later component's moves to the first slot that is free or holds the same. There
  // always is one: a component has one table, and there are as many slots as components.
  void GiveTablesSlots() {
    if (info.num_components > NUM_QUANT_TBLS) return;
    std::array<JQUANT_TBL*, NUM_QUANT_TBLS> slots{};
    const auto fits = [&](const JQUANT_TBL* slot, const JQUANT_TBL& table) {
      return slot == nullptr || std::ranges::equal(slot->quantval, table.quantval);
    };
    for (int i = 0; i < info.num_components; ++i) {
      jpeg_component_info& component = info.comp_info[i];
      if (component.quant_table == nullptr) return;  // it has no scan
      auto slot = slots.begin() + component.quant_tbl_no;
      if (!fits(*slot, *component.quant_table))
        slot =
            std::ranges::find_if(slots, [&](const JQUANT_TBL* other) { return fits(other, *component.quant_table); });
      *slot = component.quant_table;
      component.quant_tbl_no = static_cast<int>(slot - slots.begin());
    }
    std::ranges::copy(slots, info.quant_tbl_ptrs);
  }

  // The arrays lie in memory as a whole, so rows do not move any more.
  void FindRows() {
    static_assert(sizeof(CoefficientBlock) == sizeof(JBLOCK));
    const auto common = reinterpret_cast<j_common_ptr>(&info);
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t y = 0; y < rows[i].size(); ++y) {
        const JBLOCKARRAY row =
            (*info.mem->access_virt_barray)(common, arrays[i], static_cast<JDIMENSION>(y), 1, FALSE);
        rows[i][y] = reinterpret_cast<const CoefficientBlock*>(row[0]);
      }
  }

  void FindContent() {
    content.width = info.image_width;
    content.height = info.image_height;
    content.colour_space = info.jpeg_color_space;
    content.ycbcr = info.jpeg_color_space == JCS_YCbCr;
    for (size_t i = 0; i < rows.size(); ++i) {
      content.components.push_back(ComponentFacts(info.comp_info[i]));
      const size_t bytes = sizeof(CoefficientBlock) * info.comp_info[i].width_in_blocks;
      for (const CoefficientBlock* row : rows[i])
        content.row_crcs.push_back(Crc32({reinterpret_cast<const uint8_t*>(row), bytes}));
    }
  }
};

JpegCoefficients::JpegCoefficients(std::unique_ptr<State> state) : state_(std::move(state)) {}
JpegCoefficients::JpegCoefficients(JpegCoefficients&&) noexcept = default;
JpegCoefficients& JpegCoefficients::operator=(JpegCoefficients&&) noexcept = default;
JpegCoefficients::~JpegCoefficients() = default;

Result<JpegCoefficients> JpegCoefficients::Read(ByteSpan jpeg) {
  auto state = std::make_unique<State>();
  if (Result<void> read = state->Read(jpeg); !read) return PassOn(std::move(read));
  state->FindContent();
  return JpegCoefficients(std::move(state));
}

const JpegContent& JpegCoefficients::content() const { return state_->content; }

std::span<const CoefficientBlock* const> JpegCoefficients::Rows(size_t component) const {
  return state_->rows[component];
}

jpeg_decompress_struct& JpegCoefficients::libjpeg() const { return state_->info; }
jvirt_barray_control** JpegCoefficients::arrays() const { return state_->arrays; }

Result<JpegContent> ReadJpegContent(ByteSpan jpeg) {
  const Result<JpegCoefficients> coefficients = JpegCoefficients::Read(jpeg);
  if (!coefficients) return tl::unexpected<Error>(coefficients.error());
  return coefficients->content();
}

}  // namespace pcrfs
