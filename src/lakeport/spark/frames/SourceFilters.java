// A rule of Spark's optimizer: passes the conditions above a source of Lakeport to Python, and lets the
// source read less. Spark's own compiler (Janino) compiles this file in the driver; see optimizer_rule.py.

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

public class SourceFilters extends Rule {
    private static final String SOURCE = "ducklake";
    private static final String TASKS = "lakeport_tasks_";

    private BiFunction narrow;
    private byte[] secret;
    // Scans that read less already: the optimizer applies a rule until nothing changes.
    private final Set narrowed = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap()));

    // The secret stands before every pickled source: other processes can call Python's port, too.
    public void setNarrow(BiFunction narrow, byte[] secret) {
        this.narrow = narrow;
        this.secret = secret;
    }

    public TreeNode apply(TreeNode plan) {
        final SourceFilters rule = this;
        TreeNode node = plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) {
                return rule.apply((TreeNode) child);
            }
        });
        if (!(node instanceof Filter)) return node;
        Filter filter = (Filter) node;
        LogicalPlan child = (LogicalPlan) filter.child();
        LogicalPlan read = child;
        try {
            if (child instanceof DataSourceV2ScanRelation) read = scan((DataSourceV2ScanRelation) child, filter);
            if (child instanceof MapInArrow) read = tasks((MapInArrow) child, filter);
        } catch (Exception error) {
            // A query must not fail because it reads too much.
            log().warn("a query reads all of a table: " + error.getMessage());
        }
        return read == child ? filter : filter.copy(filter.condition(), read);
    }

    // A source of its own for this query: Spark 4.3 shares one among all queries of a DataFrame.
    private LogicalPlan scan(DataSourceV2ScanRelation relation, Filter filter) throws Exception {
        if (!(relation.scan() instanceof PythonScan) || narrowed.contains(relation.scan())) return relation;
        if (!SOURCE.equalsIgnoreCase(relation.relation().table().name())) return relation;
        PythonScan scan = (PythonScan) relation.scan();
        PythonDataSourceV2 source = (PythonDataSourceV2) field(scan, "ds");
        CaseInsensitiveStringMap options = (CaseInsensitiveStringMap) field(scan, "options");
        StructType schema = scan.readSchema();
        PythonDataSourceCreationResult made =
            source.getOrCreateDataSourceInPython(SOURCE, options, Option.apply(schema));
        byte[] sent = Arrays.copyOf(secret, secret.length + made.dataSource().length);
        System.arraycopy(made.dataSource(), 0, sent, secret.length, made.dataSource().length);
        Object pickled = narrow.apply(sent, predicates(filter));
        if (pickled == null) return relation;
        PythonDataSourceV2 own = new PythonDataSourceV2();
        own.setShortName(SOURCE);
        own.setReadInfo(source.source().createReadInfoInPython(
            new PythonDataSourceCreationResult((byte[]) pickled, made.schema()), schema, false));
        PythonScan less = new PythonScan(
            own, SOURCE, schema, options, new org.apache.spark.sql.sources.Filter[0]);
        narrowed.add(less);
        Object[] parts = new Object[relation.productArity()];
        for (int i = 0; i < parts.length; i++) {
            Object part = relation.productElement(i);
            // The flag `mergeableScan`: Spark must not read rows for another filter from this scan.
            parts[i] = part == scan ? less : part instanceof Boolean ? Boolean.FALSE : part;
        }
        return (LogicalPlan) relation.makeCopy(parts);
    }

    // The tasks of Arrow's reader are rows; beside each is what all of them may leave out, first NULL.
    private LogicalPlan tasks(MapInArrow map, Filter filter) {
        if (!(map.child() instanceof Project)) return map;
        Project rows = (Project) map.child();
        Object last = rows.projectList().last();
        if (!(last instanceof Alias) || !((Alias) last).name().startsWith(TASKS)) return map;
        Alias alias = (Alias) last;
        if (!(alias.child() instanceof Literal) || ((Literal) alias.child()).value() != null) return map;
        Object excluded = narrow.apply(alias.name(), predicates(filter));
        if (excluded == null) return map;
        Alias replaced = new Alias(
            new Literal(excluded, DataTypes.BinaryType), alias.name(), alias.exprId(), alias.qualifier(),
            alias.explicitMetadata(), alias.nonInheritableMetadataKeys());
        List columns = new ArrayList(CollectionConverters.asJava((Seq) rows.projectList().init()));
        columns.add(replaced);
        Project less = rows.copy(sequence(columns), rows.child());
        return map.copy(map.functionExpr(), map.output(), less, map.isBarrier(), map.profile());
    }

    private static Seq predicates(Filter filter) {
        List kept = new ArrayList();
        for (Object part : CollectionConverters.asJava((Seq) filter.splitConjunctivePredicates(filter.condition()))) {
            if (!SubqueryExpression.hasSubquery((Expression) part)) kept.add(part);
        }
        return sequence(kept);
    }

    private static Seq sequence(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
