"""The agreement that authorises one run: the manifest, its rules, how it is drafted and explained."""
