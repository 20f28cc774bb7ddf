"""The notebooks run from the first cell to the last, and are kept without what they show."""

import importlib.util
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
JUPYTER = all(importlib.util.find_spec(name) for name in ("nbclient", "nbformat", "ipykernel"))


@unittest.skipUnless(JUPYTER, "nbclient, nbformat and ipykernel run notebooks")
class Notebooks(unittest.TestCase):
    def test_each_runs_and_shows_charts_and_tables(self):
        import nbformat
        from nbclient import NotebookClient

        paths = sorted(NOTEBOOKS.glob("*.ipynb"))
        self.assertEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path.name):
                notebook = nbformat.read(path, as_version=4)
                code = [cell for cell in notebook.cells if cell.cell_type == "code"]
                self.assertTrue(all(not cell.outputs for cell in code), "clear the outputs")
                NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
                shown = "".join(
                    output.get("data", {}).get("text/html", "")
                    for cell in code
                    for output in cell.outputs
                )
                self.assertIn("<svg", shown)
                self.assertIn("<table", shown)


if __name__ == "__main__":
    unittest.main()
