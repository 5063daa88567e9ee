"""Which kernels count as Tensor-Core kernels, on names that profilers have recorded."""

from ampcore.profile.gpu_kernels import input_dtype, uses_tensor_cores

ON_TENSOR_CORES = [
    # Volta
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", "float16"),
    ("volta_h884gemm_128x256_ldg8_nn", "float16"),
    ("volta_h884cudnn_256x128_ldg8_relu_exp_small_nhwc_tn_v1", "float16"),
    ("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_interior_nhwc2nchw_tn_v1", "float16"),
    # Turing
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_relu_f2f_tn", "float16"),
    ("turing_h1688gemm_256x64_ldg8_stages_32x2_tn", "float16"),
    ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1", "float16"),
    # Ampere and Ada
    ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x6_tn", "float16"),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "bfloat16"),
    ("ampere_h16816gemm_256x128_ldg8_stages_32x3_tn", "float16"),
    ("cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x4_tn_align8", "float16"),
    ("cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1", "bfloat16"),
    ("cutlass_tensorop_s1688tf32gemm_256x128_16x3_nn_align4", "tf32"),
    (
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_"
        "tensor16x8x16_kernel",
        "float16",
    ),
    (
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x16_"
        "stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn",
        "tf32",
    ),
    ("fmha_cutlassB_f16_aligned_64x64_k64_sm80", "float16"),
    # Hopper
    (
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
        "execute_segment_k_off_kernel__5x_cublas",
        "float16",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
        "execute_segment_k_off_kernel__5x_cublas",
        "bfloat16",
    ),
    ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "float16"),
    ("nvjet_hsh_32x64_64x16_4x1_v_bz_splitK_TNN", "float16"),
    ("nvjet_tst_128x128_64x4_1x2_h_bz_coopA_TNT", "bfloat16"),
    ("nvjet_sm90_hss_320x128_64x3_1x2_h_bz_coopB_NNN", "float16"),
    (
        "cutlass3x_sm90_tensorop_s64x128x32gemm_e4m3_e4m3_f32_bf16_bf16_128x128x128_1x2x1_0_tnn_"
        "align16_warpspecialized_cooperative_epi_tma",
        "float8",
    ),
    (
        "cutlass3x_sm90_tensorop_gemm_f16_f16_f16_f16_f16_128x256x64_1x2x1_0_tnn_align8_"
        "warpspecialized_pingpong_epi_tma",
        "float16",
    ),
    # Blackwell
    ("nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT", "bfloat16"),
    ("nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN", "bfloat16"),
    (
        "cutlass3x_sm100_tensorop_s128x64x8tf32gemm_f32_f32_f32_f32_f32_128x64x32_0_tnn_align4_"
        "2sm_",
        "tf32",
    ),
    ("cutlass3x_sm120_bstensorop_s16864gemm_block_scaled_ue4m3xe2m1", "float8"),
    # XLA's own
    ("gemm_fusion_dot_12", None),
    ("gemm_fusion_MatMul_7", None),
    ("gemm_fusion_MatMul_1_2", None),
]

ON_CUDA_CORES = [
    ("volta_sgemm_32x32_sliced1x4_nn", "float32"),
    ("ampere_sgemm_128x128_nt", "float32"),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "float32"),
    ("turing_scudnn_128x32_stridedB_splitK_small_nn_v1", "float32"),
    ("sgemm_sm_heavy_nn_ldg", "float32"),
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_"
        "aligna4_alignc4_execute_kernel__5x_cublas",
        "float32",
    ),
    ("sm80_xmma_gemm_f32f32_f32f32_f32", "float32"),
    (
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x32x16_1x1x1_3_tnn_align1_bias_f32_relu",
        "float32",
    ),
    ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1", "float32"),
    (
        "void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, true, "
        "false, true>(int, int, int, float const*, int, float*, float*, kernel_conv_params, int, "
        "float, float, int, float*, float*, int, int)",
        "float32",
    ),
    (
        "void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int, int, int)",
        "float32",
    ),
    ("void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4>", "float16"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, float>", "bfloat16"),
    ("loop_add_fusion_1688", None),
    ("input_reduce_fusion_16816", None),
    ("loop_convert_fusion", None),
    ("input_scatter_fusion", None),
    ("wrapped_transpose", None),
    ("AddV2_GPU_DT_HALF_DT_HALF_kernel", "float16"),
]


def test_kernels_for_tensor_cores_are_told_from_others_with_their_dtype():
    expected = {kernel: (True, dtype) for kernel, dtype in ON_TENSOR_CORES}
    expected |= {kernel: (False, dtype) for kernel, dtype in ON_CUDA_CORES}
    classes = {kernel: (uses_tensor_cores(kernel), input_dtype(kernel)) for kernel in expected}
    wrong = {kernel: row for kernel, row in classes.items() if row != expected[kernel]}
    assert wrong == {}
