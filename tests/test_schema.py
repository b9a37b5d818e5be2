"""The JSON Schema that editors use."""

from __future__ import annotations

import tomllib

import jsonschema
import pytest
from jsonschema.protocols import Validator

import incast
from conftest import SMALL
from incast import _native


@pytest.fixture(scope="module")
def validator() -> Validator:
    """Return a validator for the dialect that the schema names, having checked the schema itself."""
    schema = incast.schema()
    dialect = jsonschema.validators.validator_for(schema, default=jsonschema.Draft3Validator)
    assert dialect is not jsonschema.Draft3Validator
    dialect.check_schema(schema)
    return dialect(schema)


@pytest.mark.parametrize("name", incast.examples())
def test_every_example_is_valid(validator: Validator, name: str) -> None:
    validator.validate(tomllib.loads(_native.example(name)))


@pytest.mark.parametrize("name", incast.examples())
def test_every_example_checks_without_a_warning(name: str) -> None:
    warnings = incast.check(name)
    if name == "leaf-spine":  # The benchmark has hosts without noise, as in the simulators that it is compared with.
        assert "hosts.noise" in warnings.pop()
    assert warnings == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"1Gbps"', "1000000000"),
        ("rto_min", "rto_mni"),
        ('kind = "star"', 'kind = "ring"'),
        ("rounds = 2", "rounds = 0"),
    ],
)
def test_what_the_program_refuses_the_schema_refuses(validator: Validator, right: str, wrong: str) -> None:
    assert right in SMALL
    scenario = tomllib.loads(SMALL.replace(right, wrong))
    assert not validator.is_valid(scenario)
    with pytest.raises(incast.ScenarioError):
        incast.check(scenario)
