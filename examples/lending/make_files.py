"""Make the files of the lending example: one per participant, each as its owner's tools would export it.

A lender wants to know whose data would help to predict which loans default. 2,400 invented loans; the
probability of default is known, so the right answer is known, too:

- telco and shop help, by about the same amount, and do not overlap.
- vendor sells 60 scores. Two of them matter: one repeats what shop knows, one is new.
- utility knows nothing about defaults.
- branch and income, the lender's own columns, help a little.

Run `python make_files.py` in this folder; it writes the same data each time.
"""

from __future__ import annotations

import csv
import datetime as dt
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

N = 2400
HERE = Path(__file__).parent


def main() -> None:
    """Write the five files."""
    rng = np.random.default_rng(2024)
    customer = np.array([f"C{number}" for number in rng.choice(np.arange(10_000, 99_999), N, replace=False)])
    # What drives defaults, each standard normal and known to one participant.
    pay, spend, stress, thrift = rng.normal(size=(4, N))
    branch = rng.choice(["Düsseldorf", "Köln", "München", "Bonn"], N, p=[0.3, 0.3, 0.3, 0.1])
    income = np.round(np.exp(rng.normal(8.0, 0.45, N) - 0.1 * thrift), 2)
    amount = np.round(np.exp(rng.normal(9.2, 0.6, N)) / 50) * 50
    logit = -2.0 + 1.0 * pay + 1.0 * spend + 0.8 * stress - 0.4 * thrift + 0.4 * (branch == "Bonn")
    defaulted = rng.random(N) < 1 / (1 + np.exp(-logit))
    loss = np.where(defaulted, amount * rng.uniform(0.2, 0.9, N), 0.0)
    _loans(rng, customer, branch, income, amount, defaulted, loss)
    _telco(rng, customer, pay)
    _shop(rng, customer, spend)
    _vendor(rng, customer, spend, stress)
    _utility(rng, customer)


def _loans(rng, customer, branch, income, amount, defaulted, loss) -> None:
    """The lender, from a German Excel: semicolons, decimal commas, points between thousands, cp1252."""
    day = dt.date(2022, 1, 3)
    spellings = {True: ["yes"] * 40 + ["YES", "yes "], False: ["no"] * 60 + ["No"]}
    with (HERE / "loans.csv").open("w", encoding="cp1252", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["customer", "applied", "amount, €", "income", "branch", "defaulted", "loss"])
        for k in range(N):
            applied = day + dt.timedelta(days=int(rng.integers(0, 700)))
            rows.writerow([
                customer[k], f"{applied:%d.%m.%Y}", _german(amount[k]), _german(income[k]), branch[k],
                rng.choice(spellings[bool(defaulted[k])]), _german(loss[k]),
            ])  # fmt: skip


def _german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def _telco(rng, customer, pay) -> None:
    """The phone company: commas, American dates, UTF-8 with a mark; it knows 96% of the customers."""
    known = np.flatnonzero(rng.random(N) < 0.96)
    rng.shuffle(known)
    with (HERE / "telco.csv").open("w", encoding="utf-8-sig", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["customer", "contract_since", "monthly_bill", "late_payments", "plan"])
        for k in known:
            since = dt.date(2015, 1, 1) + dt.timedelta(days=int(rng.integers(0, 2500)))
            bill = np.exp(3.4 + 0.35 * pay[k] + rng.normal(0, 0.4))
            late = rng.poisson(np.exp(0.9 * pay[k] - 0.6))
            plan = rng.choice(["S", "M", "L", "Überall"])
            rows.writerow([customer[k], f"{since:%m/%d/%Y}", f"{bill:.2f}", late, plan])


def _shop(rng, customer, spend) -> None:
    """The shop: an Excel workbook with a page about itself, and its customers on the second sheet."""
    book = openpyxl.Workbook()
    about = book.active
    about.title = "About"
    about.append(["Exported from the shop's customer list"])
    sheet = book.create_sheet("Customers")
    sheet.append(["customer", "first_order", "average_basket", "orders_on_credit", "returns"])
    for k in rng.permutation(N):
        first = dt.datetime(2018, 1, 1) + dt.timedelta(days=int(rng.integers(0, 1800)))
        basket = round(float(np.exp(3.8 + 0.2 * spend[k] + rng.normal(0, 0.5))), 2)
        credit = int(rng.poisson(np.exp(0.8 * spend[k] + 0.3)))
        returns = int(rng.poisson(1.0)) if rng.random() < 0.9 else None
        sheet.append([str(customer[k]), first, basket, credit, returns])
    book.properties.created = book.properties.modified = dt.datetime(2024, 1, 1)
    book.save(HERE / "shop.xlsx")


def _vendor(rng, customer, spend, stress) -> None:
    """The data vendor: 60 scores from 0 to 99 in a Parquet file."""
    hidden = rng.normal(size=(60, N))
    hidden[16] = 0.8 * spend + 0.6 * hidden[16]
    hidden[41] = 0.9 * stress + 0.44 * hidden[41]
    scores = np.clip(np.round(50 + 17 * hidden), 0, 99).astype(np.uint8)
    order = rng.permutation(N)
    columns = {"customer": pa.array(customer[order].tolist())}
    columns |= {f"score_{k + 1:02}": pa.array(scores[k][order]) for k in range(60)}
    pq.write_table(
        pa.table(columns), HERE / "vendor.parquet", compression="zstd", use_dictionary=["customer"]
    )


def _utility(rng, customer) -> None:
    """The utility: tabs, zip codes with leading zeros, a blank between thousands; it knows 91%."""
    known = np.flatnonzero(rng.random(N) < 0.91)
    with (HERE / "utility.tsv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["customer", "kwh", "zip", "meter"])
        for k in known:
            kwh = f"{rng.gamma(8.0, 350.0):,.1f}".replace(",", " ")
            zip_code = rng.choice(["01067", "50667", "53111", "80331", "40213", "04109"])
            rows.writerow([customer[k], kwh, zip_code, rng.choice(["smart", "analogue", "n/a"])])


if __name__ == "__main__":
    main()
