// The files of a table for Spark's Parquet reader: which of them a query needs, and which rows are deleted.
// Spark's own compiler (Janino) compiles this file in the driver, and the executors get the classes in a jar;
// see lake_files.py.

package lakeport;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.PrimitiveIterator;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.RecordReaderIterator;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetRowIndexUtil$RowIndexGenerator;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

public class LakeFiles extends ParquetFileFormat {
    static final String NUMBERS = "_tmp_metadata_row_index";
    static final String FILE_SIZE = "_lakeport_file_size";
    static final String DELETED = "lakeport_deleted";

    // Contexts, and sets of artifacts in them, whose jobs have the jar.
    private static final Set shipped = Collections.synchronizedSet(new HashSet());
    private static String jar;

    public void setJar(String path) {
        jar = path;
    }

    // The files of a scan. The deleted rows of each, as bits, travel with it to its tasks: the number of
    // words, and the words.
    public FileIndex index(
            byte[] statuses, byte[] deleted, boolean withSizes, String folder, String digest, Function keep)
            throws IOException {
        ArrayWritable files = new ArrayWritable(FileStatus.class);
        files.readFields(new DataInputStream(new ByteArrayInputStream(statuses)));
        DataInputStream bits = new DataInputStream(new ByteArrayInputStream(deleted));
        List listed = new ArrayList();
        for (int i = 0; i < files.get().length; i++) {
            long[] words = new long[bits.readInt()];
            for (int j = 0; j < words.length; j++) words[j] = bits.readLong();
            Map more = Map$.MODULE$.empty();
            if (words.length > 0) more = (Map) more.updated(DELETED, words);
            listed.add(new FileStatusWithMetadata((FileStatus) files.get()[i], more));
        }
        return new LakeIndex(listed, withSizes, folder, digest, keep);
    }

    public Function1 buildReaderWithPartitionValues(
            SparkSession spark, StructType data, StructType partition, StructType required, Seq filters,
            Map options, Configuration configuration) {
        // The function holds its format, and executors have Spark's own without the jar.
        Function1 read = new ParquetFileFormat().buildReaderWithPartitionValues(
            spark, data, partition, required, filters, options, configuration);
        Option column = required.getFieldIndex(NUMBERS);
        if (column.isEmpty()) return read;
        ship(spark);
        StructType rows = required;
        for (int i = 0; i < partition.fields().length; i++) rows = rows.add(partition.fields()[i]);
        return new ReadFile(read, ((Integer) column.get()).intValue(), rows);
    }

    // Dataset.selectExpr with one call from Python instead of one for each column.
    public Dataset select(Dataset rows, String expressions) {
        return rows.selectExpr(expressions.split("\0"));
    }

    private static void ship(SparkSession spark) {
        // The jobs of a session with artifacts of its own get no others.
        Option state = JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
        String artifacts = state.isEmpty() ? "" : ((JobArtifactState) state.get()).uuid();
        String jobs = spark.sparkContext().applicationId() + "/" + artifacts;
        if (shipped.add(jobs)) spark.sparkContext().addJar(jar);
    }

    static Seq sequence(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    static boolean isDeleted(long[] deleted, long row) {
        long word = row >> 6;
        return word < deleted.length && (deleted[(int) word] >>> (int) (row & 63) & 1L) != 0;
    }
}

// The files of a scan. Python is called with the predicates of a query, and returns the numbers of the files that
// may have rows for it as bytes, or null for all of them.
class LakeIndex implements FileIndex {
    private final List files;
    private final boolean withSizes;
    private final String folder;
    private final String digest;
    private final Function keep;

    LakeIndex(List files, boolean withSizes, String folder, String digest, Function keep) {
        this.files = files;
        this.withSizes = withSizes;
        this.folder = folder;
        this.digest = digest;
        this.keep = keep;
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        List predicates = new ArrayList();
        for (Object predicate : CollectionConverters.asJava(dataFilters)) {
            if (comparesColumns((Expression) predicate)) predicates.add(predicate);
        }
        if (predicates.isEmpty()) return directories(files);
        return directories(kept((byte[]) keep.apply(LakeFiles.sequence(predicates))));
    }

    // The condition on the numbers of rows is in every query, and leaves out no file.
    private static boolean comparesColumns(Expression predicate) {
        for (Object column : CollectionConverters.asJava(predicate.references().toSeq())) {
            if (!((Attribute) column).name().equals(LakeFiles.NUMBERS)) return true;
        }
        return false;
    }

    private List kept(byte[] numbers) {
        if (numbers == null) return files;
        List kept = new ArrayList();
        IntBuffer buffer = ByteBuffer.wrap(numbers).asIntBuffer();
        while (buffer.hasRemaining()) kept.add(files.get(buffer.get()));
        return kept;
    }

    // With sizes, each file is a directory of its own: its size is the value of a partition column.
    private Seq directories(List listed) {
        List directories = new ArrayList();
        if (!withSizes) directories.add(new PartitionDirectory(InternalRow.empty(), LakeFiles.sequence(listed)));
        for (int i = 0; withSizes && i < listed.size(); i++) {
            Long size = Long.valueOf(status(listed, i).getLen());
            InternalRow row = new GenericInternalRow(new Object[] {size});
            directories.add(new PartitionDirectory(row, LakeFiles.sequence(listed.subList(i, i + 1))));
        }
        return LakeFiles.sequence(directories);
    }

    private static FileStatus status(List files, int i) {
        return ((FileStatusWithMetadata) files.get(i)).fileStatus();
    }

    public Seq rootPaths() {
        return LakeFiles.sequence(Collections.singletonList(new Path(folder)));
    }

    public String[] inputFiles() {
        String[] urls = new String[files.size()];
        for (int i = 0; i < urls.length; i++) urls[i] = status(files, i).getPath().toString();
        return urls;
    }

    public long sizeInBytes() {
        long sum = 0;
        for (int i = 0; i < files.size(); i++) sum += status(files, i).getLen();
        return sum;
    }

    // Partition values of the table are also in the files.
    public StructType partitionSchema() {
        StructType schema = new StructType();
        return withSizes ? schema.add(LakeFiles.FILE_SIZE, DataTypes.LongType, false) : schema;
    }

    // The files of a snapshot do not change.
    public void refresh() {}

    public String toString() {
        return "LakeIndex " + digest;
    }

    public int hashCode() {
        return digest.hashCode();
    }

    // cache() finds the plan of another DataFrame of the same files and deleted rows.
    public boolean equals(Object other) {
        return other instanceof LakeIndex && ((LakeIndex) other).digest.equals(digest);
    }
}

// Reads one file; every row that its numbers show as deleted gets a negative number.
class ReadFile extends AbstractFunction1 implements Serializable {
    private static final long serialVersionUID = 1L;
    private final Function1 read;
    private final int column;
    private final StructType schema;

    ReadFile(Function1 read, int column, StructType schema) {
        this.read = read;
        this.column = column;
        this.schema = schema;
    }

    public Object apply(Object file) {
        Iterator rows = (Iterator) read.apply(file);
        Option found = ((PartitionedFile) file).otherConstantMetadataColumnValues().get(LakeFiles.DELETED);
        long[] deleted = found.isEmpty() ? new long[0] : (long[]) found.get();
        if (numbersItself(rows, deleted) || deleted.length == 0) return rows;
        return new MarkedRows(rows, deleted, column, schema);
    }

    // Spark 4.3 numbers rows with an object for each; where its reader can be reached, ours has none.
    private boolean numbersItself(Iterator rows, long[] deleted) {
        try {
            if (rows.getClass() != RecordReaderIterator.class) return false;
            Object reader = field(RecordReaderIterator.class, "rowReader").get(rows);
            if (!(reader instanceof VectorizedParquetRecordReader)) return false;
            Field generator = field(VectorizedParquetRecordReader.class, "rowIndexGenerator");
            if (generator.get(reader) == null) return false;
            generator.set(reader, new RowNumbers(column, deleted));
            return true;
        } catch (ReflectiveOperationException error) {
            return false;
        }
    }

    private static Field field(Class owner, String name) throws ReflectiveOperationException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}

// Numbers the rows of Spark's vectorized reader.
class RowNumbers extends ParquetRowIndexUtil$RowIndexGenerator {
    private final long[] deleted;
    private long next;
    // The rows that the reader keeps of a row group, if it skips pages.
    private PrimitiveIterator.OfLong kept;

    RowNumbers(int column, long[] deleted) {
        super(column);
        this.deleted = deleted;
    }

    public void initFromPageReadStore(PageReadStore pages) {
        next = ((Long) pages.getRowIndexOffset().get()).longValue();
        kept = pages.getRowIndexes().isPresent() ? (PrimitiveIterator.OfLong) pages.getRowIndexes().get() : null;
    }

    public void populateRowIndex(WritableColumnVector numbers, int rows) {
        for (int i = 0; i < rows; i++) {
            long row = kept == null ? next++ : next + kept.nextLong();
            numbers.putLong(i, LakeFiles.isDeleted(deleted, row) ? ~row : row);
        }
    }
}

// Marks the deleted rows among those that a reader has numbered, in batches or one by one.
class MarkedRows extends AbstractIterator implements Closeable {
    private final Iterator rows;
    private final long[] deleted;
    private final int column;
    private final StructType schema;
    private UnsafeProjection projection;

    MarkedRows(Iterator rows, long[] deleted, int column, StructType schema) {
        this.rows = rows;
        this.deleted = deleted;
        this.column = column;
        this.schema = schema;
    }

    public boolean hasNext() {
        return rows.hasNext();
    }

    public Object next() {
        Object next = rows.next();
        if (next instanceof ColumnarBatch) {
            ColumnarBatch batch = (ColumnarBatch) next;
            WritableColumnVector numbers = (WritableColumnVector) batch.column(column);
            for (int i = 0; i < batch.numRows(); i++) {
                long row = numbers.getLong(i);
                if (LakeFiles.isDeleted(deleted, row)) numbers.putLong(i, ~row);
            }
            return batch;
        }
        if (!(next instanceof UnsafeRow)) {
            if (projection == null) projection = UnsafeProjection.create(schema);
            next = projection.apply((InternalRow) next);
        }
        UnsafeRow row = (UnsafeRow) next;
        long number = row.getLong(column);
        if (LakeFiles.isDeleted(deleted, number)) row.setLong(column, ~number);
        return row;
    }

    public void close() throws IOException {
        if (rows instanceof Closeable) ((Closeable) rows).close();
    }
}
