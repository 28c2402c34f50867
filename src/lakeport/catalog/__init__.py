"""What can be attached: catalogs, schemas, tables, functions, and how to build them.

This room knows neither Flight nor Spark.
"""

from lakeport.catalog.actions import Action, ActionHandler
from lakeport.catalog.builder import CatalogBuilder, SchemaBuilder
from lakeport.catalog.capabilities import (
    ActionCatalog,
    DeletableBatchTable,
    DeletableTable,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    EndpointTable,
    InsertableTable,
    SizedTable,
    StatisticsTable,
    TimeTravelTable,
    TransactionManager,
    UpdatableBatchTable,
    UpdatableTable,
    VersionedCatalog,
)
from lakeport.catalog.context import RequestContext, current_request, request_scope
from lakeport.catalog.functions import (
    ANY,
    REQUIRED,
    AnyType,
    Arguments,
    FunctionSignature,
    Parameter,
    ParameterKind,
    ScalarFunction,
    Stability,
    TableFunction,
    TableFunctionInOut,
)
from lakeport.catalog.geometry import geometry_column, geometry_crs, is_geometry
from lakeport.catalog.model import Catalog, Schema, Table
from lakeport.catalog.names import check_name
from lakeport.catalog.options import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    CreateSchemaOptions,
    CreateTableOptions,
    DMLOptions,
    DropNotNullOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    RenameTableOptions,
    ScanOptions,
    SetDefaultOptions,
    SetNotNullOptions,
    TimePoint,
    TimeUnit,
)
from lakeport.catalog.references import (
    Endpoint,
    FileFormat,
    FileReference,
    FunctionReference,
    Partition,
)
from lakeport.catalog.results import (
    CatalogVersion,
    ColumnStats,
    DMLResult,
    TableSize,
    TransactionState,
)
from lakeport.catalog.schemas import (
    check_constraints,
    column,
    find_rowid_column,
    project_schema,
    rowid_field,
    with_check_constraints,
    without_rowid,
)
from lakeport.catalog.sources import ArrowTable, ReferenceTable, ScanTable
from lakeport.catalog.static import StaticCatalog, StaticSchema
