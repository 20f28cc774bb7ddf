//! A trace folder written from the text of its tables, so that a test can break one field of it.
//!
//! The row counts of `trace.ron` are taken from the tables, so that an edit is refused for what it
//! breaks and not for the number of rows.

use std::fs;
use std::path::Path;

/// Tables as text; the first line of each names its columns.
#[derive(Clone, Debug)]
pub(crate) struct TraceText {
    pub(crate) objects: String,
    pub(crate) ops: String,
    pub(crate) uses: String,
    /// What `trace.ron` says of the number of rows: objects, ops, uses.
    pub(crate) rows: [usize; 3],
}

/// Three layers of 4 MiB each with their Adam moments, and activations between them.
const OBJECTS: &str = "\
id,name,kind,bytes,dtype,persistent,module,adam_m,adam_v,freed_after
0,a.weight,weight,4194304,float32,true,a,0.5,0.25,
1,b.weight,weight,4194304,float32,true,b,0.25,0.5,
2,c.weight,weight,4194304,float32,true,c,0.125,0.5,
3,a.moments,optimizer,8388608,float32,true,a,,,
4,b.moments,optimizer,8388608,float32,true,b,,,
5,c.moments,optimizer,8388608,float32,true,c,,,
6,x,activation,1048576,float32,false,,,,4
7,y,activation,1048576,float32,false,,,,3
8,a.grad,gradient,4194304,float32,false,a,,,5
9,b.grad,gradient,4194304,float32,false,b,,,6
10,c.grad,gradient,4194304,float32,false,c,,,7
";

const OPS: &str = "\
id,step,phase,name,module,stream,rank,duration_ns,flops,bytes,at_ns,after
0,0,forward,mm,a,0,0,100000,1000000,5242880,0,
1,0,forward,mm,b,0,0,100000,1000000,6291456,100000,
2,0,backward,mm,c,0,0,200000,2000000,9437184,200000,
3,0,backward,mm,b,0,0,200000,2000000,9437184,400000,
4,0,backward,mm,a,0,0,200000,2000000,9437184,600000,
5,0,optimizer,adam,a,0,0,50000,0,16777216,800000,
6,0,optimizer,adam,b,0,0,50000,0,16777216,850000,
7,0,optimizer,adam,c,0,0,50000,0,16777216,900000,
";

const USES: &str = "\
op,object,mode
0,0,r
0,6,w
1,1,r
1,6,r
1,7,w
2,2,r
2,7,r
2,10,w
3,1,r
3,7,r
3,9,w
4,0,r
4,6,r
4,8,w
5,8,r
5,0,rw
5,3,rw
6,9,r
6,1,rw
6,4,rw
7,10,r
7,2,rw
7,5,rw
";

impl TraceText {
    /// One step of a model of three layers; at most 49 MiB are alive at once.
    pub(crate) fn tiny() -> TraceText {
        TraceText::of(OBJECTS, OPS, USES)
    }

    /// With the row counts that the tables have.
    pub(crate) fn of(objects: &str, ops: &str, uses: &str) -> TraceText {
        let rows = [objects, ops, uses].map(|table| table.lines().count() - 1);
        TraceText { objects: objects.into(), ops: ops.into(), uses: uses.into(), rows }
    }

    /// Replaces a piece of a table, which must be there exactly once.
    pub(crate) fn edited(mut self, table: &str, from: &str, to: &str) -> TraceText {
        let text = match table {
            "objects" => &mut self.objects,
            "ops" => &mut self.ops,
            _ => &mut self.uses,
        };
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {table}");
        *text = text.replace(from, to);
        TraceText::of(&self.objects, &self.ops, &self.uses)
    }

    /// Writes the folder.
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let [objects, ops, uses] = self.rows;
        let header = format!(
            "(schema: 1, name: \"tiny\", about: \"written by hand\",\n recorded: (how: \"\", when: \"\", \
             on: \"\"), precision: \"fp32\", batch: 1, sequence: 16,\n steps: 1, rows: (objects: \
             {objects}, ops: {ops}, uses: {uses}))\n"
        );
        for (name, text) in [
            ("trace.ron", &header),
            ("objects.csv", &self.objects),
            ("ops.csv", &self.ops),
            ("uses.csv", &self.uses),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
    }
}
