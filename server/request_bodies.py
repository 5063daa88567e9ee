"""The JSON bodies of requests about jobs and studies, as `Annotated` aliases."""

from typing import Annotated, Any, Final

from fastapi import Depends

from ampspec.api.job.explanations import ExplanationRequest
from ampspec.api.job.jobs import CloneChanges, Extension, JobChanges, LabelChanges, ProfileRequest
from ampspec.api.study_requests import BisectStudy, CapacityStudy, PrecisionStudy, SearchStudy
from server.http.request_body import REF, body_of, document_body

EXAMPLES: Final = {
    "small": {
        "summary": "Minimal: a model and data",
        "value": {"model": {"kind": "mlp"}, "data": {"kind": "digits"}},
    },
    "mixed_float16": {
        "summary": "A convolutional network in float16 with a dynamic loss scale",
        "value": {
            "name": "digits-fp16",
            "model": {"kind": "cnn", "filters": [32, 64], "dense": [128]},
            "data": {"kind": "digits", "batch_size": 256},
            "precision": {"policy": "mixed_float16"},
            "loss_scale": {"mode": "dynamic", "initial": 32768},
            "optimizer": {"kind": "adam", "learning_rate": 0.001},
            "train": {"epochs": 5},
        },
    },
}
STUDIES: Final = (PrecisionStudy, CapacityStudy, BisectStudy, SearchStudy)
STUDY_EXAMPLES: Final = {
    "precision": {
        "summary": "Which policy is as accurate as float32?",
        "value": {
            "kind": "precision",
            "spec": EXAMPLES["small"]["value"],
            "options": {"seeds": 5},
        },
    }
}
SPEC: Final = {"$ref": REF.format(model="JobSpec")}
MAX_SPECS: Final = 100
SPECS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["specs"],
    "additionalProperties": False,
    "properties": {"specs": {"type": "array", "minItems": 1, "maxItems": MAX_SPECS, "items": SPEC}},
}

SpecBody = Annotated[
    Any,
    Depends(document_body(SPEC, "The job spec. Unknown fields are an error.", examples=EXAMPLES)),
]
"""A job spec, not yet checked."""
SpecsBody = Annotated[
    Any, Depends(document_body(SPECS, "The job specs. Unknown fields are an error."))
]
StudyBody = Annotated[
    Any,
    Depends(
        document_body(
            {"oneOf": [{"$ref": REF.format(model=study.__name__)} for study in STUDIES]},
            "The kind of study, the job spec and the options. Unknown fields are an error.",
            examples=STUDY_EXAMPLES,
        )
    ),
]
JobChangesBody = Annotated[
    JobChanges,
    Depends(body_of(JobChanges, "The fields to change. Unknown fields are an error.")),
]
LabelChangesBody = Annotated[
    LabelChanges, Depends(body_of(LabelChanges, "The labels to set or to remove."))
]
CloneBody = Annotated[
    CloneChanges,
    Depends(
        body_of(CloneChanges, "The fields of the spec to change in the clone.", required=False)
    ),
]
ExtensionBody = Annotated[Extension, Depends(body_of(Extension, "How much longer to train."))]
ProfileBody = Annotated[
    ProfileRequest, Depends(body_of(ProfileRequest, "How many steps to profile.", required=False))
]
ExplanationBody = Annotated[
    ExplanationRequest, Depends(body_of(ExplanationRequest, "The step to explain."))
]
