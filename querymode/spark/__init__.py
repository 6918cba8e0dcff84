"""QueryMode on Spark: a session that starts, scans inside UDFs, and the package as a zip for executors.

The only room that imports pyspark, and only when one of these is called. Spark is the cluster: nothing here
schedules, retries or shuffles.
"""

from querymode.spark.bundle import package_zip
from querymode.spark.scan import scan_udf
from querymode.spark.start import session

__all__ = ["package_zip", "scan_udf", "session"]
