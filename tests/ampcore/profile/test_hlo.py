"""The dtypes of the instructions that XLA executes, read from programs that it compiled here."""

import pytest
import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2

from ampcore.profile.hlo import Program


def compiled(function, *arguments):
    """The program of XLA for a function, and the module in it."""
    traced = tf.function(function, jit_compile=True, autograph=False)
    data = traced.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo_proto_serialized")
    proto = hlo_pb2.HloProto()
    proto.ParseFromString(data)
    return Program(data), proto.hlo_module


def operations(function, *arguments):
    """What is known of every instruction of a compiled function."""
    program, module = compiled(function, *arguments)
    names = [one.name for part in module.computations for one in part.instructions]
    return [found for name in names if (found := program.operation(name)) is not None]


@pytest.fixture(scope="module")
def in_bfloat16():
    """The instructions of a matrix product that is written in bfloat16."""

    def step(x, w):
        with tf.name_scope("phase.forward/dense"):
            half = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(w, tf.bfloat16))
        return tf.cast(half, tf.float32)

    return operations(step, tf.ones((128, 256)), tf.ones((256, 64)))


def test_a_product_has_its_name_and_the_dtype_that_is_executed(in_bfloat16):
    [product] = [one for one in in_bfloat16 if one.is_matrix and one.type == "dot"]
    assert product.name == "phase.forward/dense/MatMul"
    # XLA decides for this processor: it keeps bfloat16, or converts back and says so.
    assert (product.dtype, product.casts_back) in {("bfloat16", False), ("float32", True)}


def test_conversions_are_casts(in_bfloat16):
    assert any(one.is_cast for one in in_bfloat16)


def test_a_product_in_float32_casts_nothing_back():
    found = operations(lambda x: tf.matmul(x, x), tf.ones((128, 128)))
    [product] = [one for one in found if one.is_matrix and one.type == "dot"]
    assert (product.dtype, product.casts_back) == ("float32", False)


def module_of(*instructions, names=None):
    """A program with one computation: (name, opcode, element type, operands, target).

    `names` has the names of TensorFlow's operations by instruction.
    """
    proto = hlo_pb2.HloProto()
    computation = proto.hlo_module.computations.add(id=1)
    numbers = {}
    for number, (name, opcode, element_type, operands, target) in enumerate(instructions, 1):
        numbers[name] = number
        made = computation.instructions.add(
            name=name, opcode=opcode, id=number, custom_call_target=target
        )
        made.shape.element_type = element_type
        made.metadata.op_name = (names or {}).get(name, "")
        made.operand_ids.extend(numbers[one] for one in operands)
    return Program(proto.SerializeToString())


F32, BF16 = 11, 16


def test_a_convolution_whose_inputs_were_converted_casts_back():
    program = module_of(
        ("x", "parameter", BF16, [], ""),
        ("wide", "convert", F32, ["x"], ""),
        ("moved", "transpose", F32, ["wide"], ""),
        ("w", "parameter", F32, [], ""),
        ("conv", "convolution", F32, ["moved", "w"], ""),
    )
    found = program.operation("conv")
    assert (found.is_matrix, found.dtype, found.casts_back) == (True, "float32", True)


@pytest.mark.parametrize(
    ("target", "is_matrix"),
    [("__cublas$lt$matmul", True), ("__cudnn$convForward", True), ("TopK", False)],
)
def test_calls_into_libraries_multiply_matrices(target, is_matrix):
    program = module_of(
        ("x", "parameter", BF16, [], ""), ("call", "custom-call", BF16, ["x", "x"], target)
    )
    found = program.operation("call")
    assert (found.is_matrix, found.type, found.dtype) == (is_matrix, target, "bfloat16")


def test_control_flow_and_unknown_names_are_no_operations():
    program = module_of(("x", "parameter", BF16, [], ""), ("loop", "while", BF16, ["x"], ""))
    assert program.operation("loop") is None
    assert program.operation("another") is None


def test_a_product_with_a_fused_bias_is_named_as_the_product_and_the_bias():
    program = module_of(
        ("x", "parameter", F32, [], ""),
        ("call", "custom-call", F32, ["x", "x"], "__cublas$lt$matmul"),
        names={"call": "while/phase.forward/dense/BiasAdd"},
    )
    product = program.operation("call")
    assert product.title == "while/phase.forward/dense/MatMul+BiasAdd"
    assert product.name == "while/phase.forward/dense/BiasAdd"  # as in the trace


def test_a_product_in_a_fusion_is_named_with_what_follows_it():
    def step(x, w, b):
        with tf.name_scope("phase.forward/dense"):
            return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))

    found = operations(step, tf.ones((128, 256)), tf.ones((256, 64)), tf.ones(64))
    products = {one.title for one in found if one.is_matrix}
    assert products
    for title in products:
        assert title.split("/")[-1].startswith("MatMul")
