"""Principal components against scikit-learn, and the rules for odd features."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.columns import columns_of
from fedvalue.tables.party_table import party_table
from fedvalue.tables.pca import principal_components


def scores(X, k):
    found = principal_components(columns_of(X, name="p"), k, name="p", rotate=True)
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
    standardised = (x - x.mean()) / x.std()
    np.testing.assert_allclose(scores({"a": x, "b": -x}, 1)[:, 0], 2**0.5 * standardised, atol=1e-9)
    np.testing.assert_allclose(scores({"a": -x, "b": x}, 1)[:, 0], -(2**0.5) * standardised, atol=1e-9)


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
    whole = party_table("p", X, CodingSettings(pca=2))
    table = party_table("p", holes, CodingSettings(pca=2))
    assert table.n_codes == whole.n_codes + 1
    np.testing.assert_array_equal(table.codes[:30], whole.codes)
    assert table.codes[30] == table.codes[31] == table.n_codes - 1


def test_more_features_than_samples():
    """Components beyond the rank are zeros rather than an error."""
    X = np.random.default_rng(3).normal(size=(3, 5))
    got = scores(X, 5)
    assert got[:, :2].any(axis=0).all()
    assert not got[:, 2:].any()


def test_a_party_with_no_more_columns_than_components_keeps_them():
    """Reducing one party to two components does not fail because another has one column."""
    X = np.random.default_rng(4).normal(size=(30, 3))
    for columns in (X[:, :1], X[:, :2]):
        plain, settled = party_table("p", columns), party_table("p", columns, CodingSettings(pca=2))
        np.testing.assert_array_equal(settled.codes, plain.codes)
    assert party_table("p", X, CodingSettings(pca=2)).features == ("pc1", "pc2")


def test_the_paper_rotates_as_many_columns_as_components():
    """Fig. 8 has five components of five columns."""
    X = np.random.default_rng(4).normal(size=(30, 2))
    assert party_table("p", X, CodingSettings(pca=2, binning="width")).features == ("pc1", "pc2")


def test_categories_stay_beside_the_components():
    """Numbers are reduced, text is not; the report says which is which."""
    X = {"city": ["a", "b", "a", "b"], "x": [1, 2, 3, 5], "y": [2, 1, 2, 1], "z": [5, 6, 7, 9]}
    table = party_table("p", X, CodingSettings(pca=2))
    assert table.features == ("pc1", "pc2", "city")
    assert [column.kind for column in table.columns] == ["component", "component", "category"]
    assert table.notes[0].startswith("p: 2 principal components of 3 columns keep ")


def test_the_note_says_how_much_variance_is_kept_and_that_the_rest_may_predict():
    """Two equal columns and an orthogonal one: the components' variances are 2, 1 and 0."""
    a, b = [1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]
    X = {"a": a, "b": b, "twice a": [2 * value for value in a]}
    assert party_table("p", X, CodingSettings(pca=1)).notes[0] == (
        "p: 1 principal component of 3 columns keeps 67% of their variance; what predicts the label may be "
        "in the rest: compare with a valuation without --pca"
    )
    whole = party_table("p", X, CodingSettings(pca=2)).notes[0]
    assert whole == "p: 2 principal components of 3 columns keep 100% of their variance"


def test_components_that_lose_a_little_are_not_said_to_keep_everything():
    """Components of columns x and x + e, with e orthogonal and tiny, keep all but a trace of the variance."""
    x, e = np.array([1.0, 1.0, -1.0, -1.0]), 0.01 * np.array([1.0, -1.0, 1.0, -1.0])
    note = party_table("p", {"x": x, "y": x + e}, CodingSettings(pca=1)).notes[0]
    assert "keeps 99% of their variance; what predicts" in note


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((3, 2), np.nan), "shop: PCA needs rows without missing values, and there are none"),
        (np.full((3, 2), 0.1), "shop: PCA needs a column that varies, and all 2 are constant"),
        (np.eye(3) * 1e200, "shop: PCA needs numbers whose squares are finite"),
    ],
)
def test_numbers_without_components_are_refused(X, message):
    """Each with the party and the reason."""
    with pytest.raises(InputError, match=message):
        party_table("shop", X, CodingSettings(pca=1))
