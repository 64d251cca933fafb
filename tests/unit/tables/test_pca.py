"""Principal components against scikit-learn, and the rules for odd features."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.columns import columns_of
from fedvalue.tables.party_table import party_table
from fedvalue.tables.pca import Components, fit_components


def scores(X, k):
    columns = columns_of(X, name="p")
    found = fit_components(columns, k, name="p").scores(columns)
    return np.column_stack([found[f"pc{j + 1}"].values for j in range(k)])


def test_components_are_those_of_scikit_learn_up_to_sign():
    """On Breast, 5 components agree to the 9 decimals that rounding leaves."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    X = load_breast_cancer().data
    expected = PCA(5).fit_transform(StandardScaler().fit_transform(X))
    got = scores(X, 5)
    signs = np.sign((expected * got).sum(axis=0))
    np.testing.assert_allclose(got, expected * signs, atol=1e-9)


def test_the_largest_loading_is_positive():
    """Two opposed features: the first of the equal loadings decides the sign."""
    x = np.array([1.0, 2.0, 4.0])
    fitted = fit_components(columns_of({"a": x, "b": -x}, name="p"), 1, name="p")
    np.testing.assert_allclose(fitted.loadings[0], [0.5**0.5, -(0.5**0.5)])


def test_a_constant_feature_weighs_nothing():
    """Adding a constant column changes no score, also when its mean is not representable."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    with_constant = np.column_stack([X, np.full(50, 0.1)])
    np.testing.assert_array_equal(scores(with_constant, 2), scores(X, 2))


def test_a_dependent_feature_gives_a_component_of_zeros():
    """Rounding noise is not a component: it is constant 0 and one code."""
    x = np.random.default_rng(1).normal(size=40)
    assert not scores({"a": x, "b": 3 * x + 1}, 2)[:, 1].any()


def test_rows_with_missing_values_are_a_category_and_do_not_move_the_others():
    """The components are fitted without them; each such row has the missing code."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 3))
    holes = np.vstack([X, [np.nan, 1, 1], [5, 5, np.nan]])
    whole = party_table("p", X, pca=2)
    table = party_table("p", holes, pca=2)
    assert table.n_codes == whole.n_codes + 1
    np.testing.assert_array_equal(table.codes[:30], whole.codes)
    assert table.codes[30] == table.codes[31] == table.n_codes - 1


def test_more_features_than_samples():
    """Components beyond the rank are zeros rather than an error."""
    X = np.random.default_rng(3).normal(size=(3, 5))
    got = scores(X, 5)
    assert got[:, :2].any(axis=0).all()
    assert not got[:, 2:].any()


def test_components_survive_json():
    """Other rows get the same scores after a round trip, to the last bit."""
    columns = columns_of(np.random.default_rng(4).normal(size=(30, 4)), name="p")
    fitted = fit_components(columns, 3, name="p")
    assert Components.from_dict(json.loads(json.dumps(fitted.to_dict()))) == fitted
    with pytest.raises(InputError, match="expected fitted components"):
        Components.from_dict({"features": []})


@pytest.mark.parametrize(
    ("X", "k", "message"),
    [
        (np.eye(3), 4, "shop: the number of components must be from 1 to the 3 features, got 4"),
        (np.eye(3), 0, "from 1 to the 3 features, got 0"),
        (np.eye(3), 1.5, "must be a whole number, got 1.5"),
        (np.eye(3), True, "got True"),
        ({"a": ["x", "y"], "b": [1, 2]}, 1, "column 'a': PCA needs numbers, got categories"),
        (np.full((3, 2), np.nan), 1, "shop: PCA needs rows without missing values, got none"),
        (np.full((3, 2), 0.1), 1, "shop: PCA needs a feature that varies, got 2 constant ones"),
        (np.eye(3) * 1e200, 1, "shop: PCA needs numbers whose squares are finite, got larger ones"),
    ],
)
def test_what_has_no_components_is_refused(X, k, message):
    """Each with the party or column, what was expected and what came."""
    with pytest.raises(InputError, match=message):
        party_table("shop", X, pca=k)
